"""Breaks that the user has asked for, marks that don't fit, and what takes too long."""

from stator.diagnostics.breaks import Break


class GraphBreakAsked(Break):
    """`stator.graph_break()`."""

    id = "SB0001"
    title = "the program asks for a graph break"
    what = "The program calls `stator.graph_break()`."
    why = "Nothing keeps the code out of the graph but this call."
    fix = "remove the call of graph_break()"
    example = """\
import stator
import torch

def program(x):
    y = x + 1
    stator.graph_break("I want to look at y here")
    return y * 2

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    y = x + 1
    return y * 2

def arguments():
    return (torch.ones(3),)
"""


class SkipAsked(Break):
    """`stator.skip_frame()`."""

    id = "SB0002"
    title = "the program asks not to be captured"
    what = "The program calls `stator.skip_frame()`: all of the compiled function runs as it is."
    why = "Nothing keeps the code out of the graph but this call."
    fix = "remove the call of skip_frame(), or don't compile the function"
    example = """\
import stator
import torch

def program(x):
    if x.dim() != 2:
        stator.skip_frame("only matrices are worth it")
    return x * 2

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return x * 2

def arguments():
    return (torch.ones(3),)
"""


class FunctionDisabled(Break):
    """`stator.disable`, `torch.compiler.disable`."""

    id = "SB0003"
    title = "a disabled function is called"
    what = (
        "The program calls a function that was marked with `stator.disable` (or "
        "`torch.compiler.disable`): it runs as it is, between two graphs."
    )
    why = "The mark says that the function is not to be traced."
    fix = """\
remove the mark, or call the function outside of the compiled one
A function that must stay whole, but may be in the graph, can be marked with `stator.allow_in_graph`
instead; one that always answers the same, with `stator.assume_constant_result`."""
    example = """\
import stator
import torch

@stator.disable(reason="it is slow to trace")
def halved(x):
    return x / 2

def program(x):
    return halved(x) + 1

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def halved(x):
    return x / 2

def program(x):
    return halved(x) + 1

def arguments():
    return (torch.ones(3),)
"""


class MarkMisfit(Break):
    """A mark that can't be followed in this call."""

    id = "SB0004"
    title = "what was said about a function does not fit the call"
    what = (
        "A function is marked, and called in a way that the mark does not cover: one with "
        "`assume_constant_result` gets a tensor or another object, one with a substitute is "
        "called by C code, `error_on_graph_break` gets something else than True or False. A "
        "function that is to be one node (`allow_in_graph`, `nonstrict_trace`, `leaf_function`) "
        "gets an object that is no tree of tensors and constants, returns one, or fails on "
        "tensors without values; a leaf has no `register_fake`, or changes its arguments."
    )
    why = (
        "A constant result is asked for once, while tracing. If it could depend on an object that "
        "is known at run time only, the answer would be a guess. A node of a graph gets tensors "
        "and numbers; all else must be the same in each call."
    )
    fix = "call the marked function with constants only, or trees of tensors, and directly"
    example = """\
import stator
import torch

@stator.assume_constant_result
def scale(x):
    return 0.5 if x.dim() == 1 else 0.25

def program(x):
    return x * scale(x)

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import stator
import torch

@stator.assume_constant_result
def scale(dims):
    return 0.5 if dims == 1 else 0.25

def program(x):
    return x * scale(x.dim())

def arguments():
    return (torch.ones(3),)
"""


class LoopUnrolled(Break):
    """`config.trace_budget`."""

    id = "SB0043"
    title = "a loop takes too long to unroll"
    what = (
        "The program has a loop, or calls itself, and tracing it has taken longer than "
        "`stator.config.trace_budget` says: each iteration is traced, and put into the graph."
    )
    why = (
        "A graph has no loops. One of a thousand iterations is a graph of a thousand times as many "
        "operations, and backends take even longer. The program is split where the loop goes on, "
        "and what an iteration does is compiled once for all of them."
    )
    fix = """\
compute all iterations at once, as one operation on larger tensors, or compile what one of them does

If one graph is worth the time, set `stator.config.trace_budget` to more seconds.
"""
    example = """\
import stator
import torch

stator.config.trace_budget = 0  # in seconds

def program(x):
    for step in range(40):
        x = torch.cos(x * step)
    return x

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import stator
import torch

stator.config.trace_budget = 60  # in seconds

def program(x):
    for step in range(40):
        x = torch.cos(x * step)
    return x

def arguments():
    return (torch.ones(3),)
"""
