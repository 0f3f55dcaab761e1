"""Parts of a graph with a graph of their own."""

from stator.diagnostics.breaks import Break


class RegionContents(Break):
    """`torch.autograd.Function`, `torch.utils.checkpoint`, `torch.cond` and other operators."""

    id = "SB0041"
    title = "a region does more than compute tensors from tensors"
    what = (
        "The forward or backward of a `torch.autograd.Function`, or a checkpointed function, "
        "returns more than tensors, changes a tensor from outside, hands one out sideways, uses "
        "random state or options that a region does not have. Or a backward reads what may be "
        "different when the gradient is computed: a global, an attribute, a list. A function of "
        "`torch.cond` or a loop also must not raise, change anything, or return its own arguments; "
        "branches must return the same kinds of tensors, and loops what they are given."
    )
    why = (
        "A region is a graph of its own inside of one node, and may run more than once, and later "
        "than the call. Only what goes in and comes out as tensors is the same then."
    )
    fix = "let the function take tensors, return tensors, and do nothing else; keep numbers in ctx"
    example = """\
import torch
from torch.utils.checkpoint import checkpoint

def block(x):
    return x.sin(), "no tensor"

def program(x):
    return checkpoint(block, x, use_reentrant=False)

def arguments():
    return (torch.ones(3, requires_grad=True),)
"""
    fixed = """\
import torch
from torch.utils.checkpoint import checkpoint

def block(x):
    return x.sin()

def program(x):
    return checkpoint(block, x, use_reentrant=False), "no tensor"

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
