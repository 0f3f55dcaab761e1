"""Parts of a graph with a graph of their own."""

from stator.diagnostics.breaks import Break


class RegionContents(Break):
    """`torch.autograd.Function`, `torch.utils.checkpoint`."""

    id = "SB0041"
    title = "a region does more than compute tensors from tensors"
    what = (
        "The forward or backward of a `torch.autograd.Function`, or a checkpointed function, "
        "returns more than tensors, changes a tensor from outside, hands one out sideways, uses "
        "random state or options that a region does not have. Or a backward reads what may be "
        "different when the gradient is computed: a global, an attribute, a list."
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


class BodiesDiffer(Break):
    """`torch.cond` and other operators that take functions."""

    id = "SB0044"
    title = "functions of a control-flow operator don't fit each other"
    what = (
        "The branches of `torch.cond` return other containers, dtypes, devices or numbers of "
        "dimensions; or the body of a loop returns something else than it was given."
    )
    why = (
        "The operator has one result, whichever branch is taken and however often a body runs: "
        "what follows in the graph is for tensors of one kind. torch refuses such functions, too."
    )
    fix = "let both functions return tensors of the same dtype and shape, in the same containers"
    example = """\
import torch

def program(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.double(), (x,))

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.double().float(), (x,))

def arguments():
    return (torch.ones(3),)
"""
