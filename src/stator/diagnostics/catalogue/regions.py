"""Parts of a graph with a graph of their own."""

from stator.diagnostics.breaks import Break


class RegionContents(Break):
    """`torch.autograd.Function`, `torch.utils.checkpoint`, `torch.cond` and other operators."""

    id = "SB0041"
    title = "a region does more than compute tensors from tensors"
    what = (
        "The backward of a `torch.autograd.Function`, or a checkpointed function, changes what is "
        "outside of it, hands a tensor out sideways, uses random state or options that a region "
        "does not have, or contexts other than those of selective checkpointing. Or a backward "
        "reads what may be different when the gradient is computed: a global, an attribute, a "
        "list. A function of `torch.cond` or a loop also must not raise, change anything, or "
        "return its own arguments; branches must return the same kinds of tensors, and loops what "
        "they are given."
    )
    why = (
        "A region is a graph of its own inside of one node, and may run more than once, and later "
        "than the call. Only what goes in and comes out as tensors is the same then."
    )
    fix = "let the function compute and return what it is asked for, and do nothing else"
    example = """\
import torch
from torch.utils.checkpoint import checkpoint

calls = []

def block(x):
    calls.append("block")
    return x.sin()

def program(x):
    return checkpoint(block, x, use_reentrant=False)

def arguments():
    return (torch.ones(3, requires_grad=True),)
"""
    fixed = """\
import torch
from torch.utils.checkpoint import checkpoint

calls = []

def block(x):
    return x.sin()

def program(x):
    calls.append("block")
    return checkpoint(block, x, use_reentrant=False)

def arguments():
    return (torch.ones(3, requires_grad=True),)
"""


class Transform(Break):
    """`torch.func`."""

    id = "SB0042"
    title = "a function transform is used in a way that is not traced"
    what = (
        "The program calls `torch.vmap`, or `grad`, `vjp`, `jvp` of `torch.func` or what is made "
        "of them, with a function that changes its arguments, returns more than tensors or leaves "
        "another grad mode behind, that uses a `torch.autograd.Function` or a checkpoint, or on "
        "which torch's transform fails without values. Or it calls `linearize` or `functionalize`, "
        "or a transform calls a compiled function."
    )
    why = (
        "Inside of a transform, tensors are wrapped and each operation stands for another one. "
        "A node of the graph applies the transform to the graph of the function, which takes "
        "tensors and returns tensors."
    )
    fix = "let the function take tensors, return tensors, and change nothing; or transform outside"
    example = """\
import torch

def energy(x, scale):
    scale.mul_(2)
    return (x * x * scale).sum()

def program(x):
    return x - 0.1 * torch.func.grad(energy)(x, torch.ones(3))

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def energy(x, scale):
    return (x * x * scale * 2).sum()

def program(x):
    return x - 0.1 * torch.func.grad(energy)(x, torch.ones(3))

def arguments():
    return (torch.ones(3),)
"""


class ImpureRegion(Break):
    """`nested_compile_region`."""

    refuses = True
    id = "SB0044"
    title = "a nested region changes something outside of it"
    what = (
        "A function that is marked with `nested_compile_region` sets an attribute, a global or a "
        "variable of another function, or changes a list, dict or other object that it was given."
    )
    why = (
        "A region is traced once, and its graph is called in the place of each further call: a "
        "change that its Python code makes would be made once. Tracing it each time would give up "
        "the time that a region is there to save, so it is an error."
    )
    fix = "return the new value, and assign it outside of the region\n\n\
`stator.config.allow_side_effects_under_nested_compile_region = True` permits changes: the region \
is captured at each call then, with what it changes in order."
    example = """\
import stator
import torch

done = []

@stator.nested_compile_region
def block(x):
    done.append(1)
    return x.sin()

def program(x):
    return block(block(x))

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import stator
import torch

done = []

@stator.nested_compile_region
def block(x):
    return x.sin()

def program(x):
    done.append(1)
    return block(block(x))

def arguments():
    return (torch.ones(3),)
"""


class TooManyRegions(Break):
    """`nested_compile_region`."""

    refuses = True
    id = "SB0045"
    title = "a nested region is another one each time"
    what = (
        "A function that is marked with `nested_compile_region` was traced `max_reuse_entries` "
        "times in one call, since each use of it differs from those before: in the shape or dtype "
        "of an argument, in a constant, in an attribute that it reads."
    )
    why = "Then nothing is reused, and tracing takes longer than without the region."
    fix = (
        "remove what differs, or the mark; or raise max_reuse_entries of nested_compile_region\n\n\
`STATOR_LOGS=regions` says of each call what is different."
    )
    example = """\
import stator
import torch

@stator.nested_compile_region(max_reuse_entries=2)
def block(x, factor):
    return x.sin() * factor

def program(x):
    for factor in range(1, 5):
        x = block(x, factor)
    return x

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import stator
import torch

@stator.nested_compile_region(max_reuse_entries=2)
def block(x):
    return x.sin()

def program(x):
    for factor in range(1, 5):
        x = block(x) * factor
    return x

def arguments():
    return (torch.ones(3),)
"""
