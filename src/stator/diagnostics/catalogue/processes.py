"""Other processes."""

from stator.diagnostics.breaks import Break


class Communication(Break):
    """`torch.distributed`, beyond collectives of tensors."""

    id = "SB0046"
    title = "processes communicate in a way that a graph does not hold"
    what = (
        "The program waits for other processes (`barrier`), sends to one of them, exchanges "
        "objects, makes or ends a process group, or keeps the handle of a collective that it has "
        "begun with `async_op=True`. Or a collective writes to a tensor that is complex, not "
        "contiguous, of a subclass, or one that a gradient depends on."
    )
    why = (
        "A graph holds the collectives that torch has operators for, which return new tensors. "
        "Whatever else passes between processes happens between two graphs, in the order of the "
        "program, so that all processes meet where they would in eager."
    )
    fix = """\
do it before or after the compiled function; wait for a collective where it was begun
Those of `torch.distributed._functional_collectives` return new tensors, and have gradients."""
    example = """\
import torch
import torch.distributed as dist

def program(x):
    try:
        dist.barrier()
    except ValueError:  # there is one process
        pass
    return x.sin()

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):  # whoever calls it waits
    return x.sin()

def arguments():
    return (torch.ones(3),)
"""
