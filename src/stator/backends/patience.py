"""Whether a graph is to run for a while before Inductor compiles it: when that pays.

In: a recorded graph. Out: how often it runs by its own operators first, and why; None if Inductor
is to compile it at once, as it is expected to.

A decoder that calls a recurrent layer step by step, in a loop, is one graph with all its steps, and
Inductor takes half a minute for it: as long as ten thousand runs take by torch's own kernels. So is
a program that looks at values again and again (experts, a Viterbi search, matching of boxes).
torch.compile leaves such programs alone, or most of them, since it does not capture what they do.
So such a graph runs as it is, until the time that it has spent is about what compiling it takes: a
program that ends earlier has not waited for nothing, any other takes at most twice as long as it
would have to.

Only graphs in which the same recurrent layer is called several times are meant, and those with
sizes or whole numbers that depend on values; floats do in the steps of optimizers. Nobody who
measures another program after one call for warming up is to find the compiler in a later one.

It is decided by estimates, not by a clock: what Inductor compiles rounds otherwise, and draws other
random numbers, and a program is to do the same each time that it is run.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import torch.fx as fx

from stator.graph.fakes.recurrent import KINDS, bound

from .estimates import (
    BYTES,
    NUMBERS,
    STEP,
    VIEWS,
    bytes_of,
    is_item,
    is_plain,
    is_trained,
    multiplications,
    name_of,
    number,
    steps_of,
    value_of,
)

WHY: Final = "Inductor would compile it for about {} s, as long as it takes to run it {} times"

_TIMES: Final = 3  # that a layer is called in a loop
_LONG: Final = 10.0  # seconds that are worth waiting for
_FEWEST: Final = 100  # runs: a graph that takes long itself is compiled at once
_COMPILED: Final = 0.13  # seconds for an operator
_CALL: Final = 6.0  # microseconds for an operator
_VIEW: Final = 1.5
_TRAINED: Final = (2.0, 3.0)  # how much longer it takes to compile and to run with a backward
_WEIGHTED: Final = frozenset({"conv1d", "conv2d", "conv3d", "linear"})
_MULTIPLIED: Final = frozenset({"addmm", "baddbmm", "bmm", "matmul", "mm"})


@dataclass(frozen=True)
class Patience:
    """How often a graph runs by its own operators first."""

    calls: int
    why: str


def patience(module: fx.GraphModule) -> Patience | None:
    """How long Inductor is to wait with a graph; None if it is not to."""
    if not is_plain(module) or not (_has_loop(module) or _looks_at_values(module)):
        return None
    nodes = [node for node in module.graph.nodes if node.op.startswith("call_")]
    compiling, running = _TRAINED if is_trained(module) else (1.0, 1.0)
    seconds = compiling * _COMPILED * len(nodes)
    calls = round(seconds / (running * 1e-6 * sum(map(_microseconds, nodes))), -2)
    if seconds < _LONG or calls < _FEWEST:
        return None
    return Patience(int(calls), WHY.format(round(seconds), int(calls)))


def _has_loop(module: fx.GraphModule) -> bool:
    """Whether one recurrent layer, known by its weights, is called again and again."""
    layers: Counter[Any] = Counter()
    for node in module.graph.nodes:
        call = bound(node.target, node.args, node.kwargs) if node.target in KINDS else None
        if call is not None:
            layers[tuple(call.params)] += 1
    return any(count >= _TIMES for count in layers.values())


def _looks_at_values(module: fx.GraphModule) -> bool:
    """Whether sizes, places or choices depend on values: whole numbers."""
    made = (node.meta.get("unbacked_bindings") or () for node in module.graph.nodes)
    return any(symbol.is_integer for symbols in made for symbol in symbols)


def _microseconds(node: fx.Node) -> float:
    """Of one run of an operator, by torch's own kernel."""
    name = name_of(node)
    if name in VIEWS and is_item(node):
        return _VIEW
    if node.target in KINDS and (call := bound(node.target, node.args, node.kwargs)) is not None:
        return _CALL + steps_of(call) * (STEP[call.layers.kind] + multiplications(call) / NUMBERS)
    return _CALL + bytes_of(node) / BYTES + _products(node, name) / NUMBERS


def _products(node: fx.Node, name: str) -> float:
    """The multiplications of an operator."""
    made = value_of(node)
    operands = [each for each in map(value_of, node.all_input_nodes) if each is not None]
    if made is None or len(operands) < 2:
        return 0.0
    if name in _WEIGHTED:
        inner = operands[1].shape[1:]
    elif name in _MULTIPLIED:
        inner = operands[-2].shape[-1:]
    else:
        return 0.0
    total = float(number(made.numel()))
    for size in inner:
        total *= number(size)
    return total
