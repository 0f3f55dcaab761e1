"""What a graph takes for granted of unknown numbers, written into it as checks.

In: a finished graph, and what torch's `ShapeEnv` was told (`deferred_runtime_asserts`). Out: for
each condition that does not follow from the operators, nodes that compute it and an
`_assert_scalar`, right behind the node from which the last of its numbers is known: a backend that
traces the graph again knows it from there on.

The conditions are written as they were when they were taken for granted. Meanwhile a symbol may
have been replaced by what it was taken to be: written with that, the condition would say nothing.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx
from torch.fx.proxy import GraphAppendingTracer

from stator.graph.passes.purity import KEEP
from stator.graph.unknown.symbols import Symbols, Written, describe
from stator.torchlib.operators import ASSERT_SCALAR
from stator.torchlib.shapes import sympy_interp

CHECK: Final = ASSERT_SCALAR
_NUMBER: Final = re.compile(r"check (\d+): .* is taken for granted")


def insert_checks(graph: fx.Graph, symbols: Symbols, conditions: Sequence[Any]) -> None:
    """Writes conditions over symbols into the graph, in the order in which they were assumed."""
    checks = [
        _Check(number, condition, symbols)
        for number, condition in enumerate(conditions)
        # Not of a number inside of an operator, which makes sure of it when it runs.
        if all(map(symbols.defines, condition.free_symbols))
    ]
    order = {node: position for position, node in enumerate(graph.nodes)}
    places: dict[fx.Node, fx.Node] = {}  # behind which node -> the last one that was put there
    for check in checks:
        last = max(check.known.values(), key=order.__getitem__)
        behind = behind_inputs(places.get(last, last))
        with graph.inserting_before(behind.next):
            made = graph.call_function(CHECK, (check.written(graph), check.message))
        made.meta[KEEP] = True
        describe(_between(behind, made))
        places[last] = made


class _Check:
    """A condition, and the nodes from which its numbers are known."""

    def __init__(self, number: int, condition: Any, symbols: Symbols) -> None:
        free = sorted(condition.free_symbols, key=str)
        self.message = f"check {number}: {condition} is taken for granted"
        self._condition = condition
        self._truth = symbols.truth_of(free[0]) if len(free) == 1 else None
        self.known = {
            symbol: symbols.node_of(symbol) if self._truth is None else self._truth
            for symbol in free
        }

    def written(self, graph: fx.Graph) -> fx.Node:
        """The condition as nodes.

        That on a bool's symbol, which is 1 if it is true, is written with the bool itself: when a
        backend traces it again, torch may take a number made of a bool for known.
        """
        if self._truth is None:
            tracer = GraphAppendingTracer(graph)
            env = {symbol: fx.Proxy(node, tracer) for symbol, node in self.known.items()}
            node: fx.Node = sympy_interp(Written, env, self._condition).node
            return node
        (symbol,) = self.known
        if self._condition.xreplace({symbol: sympy.Integer(1)}) == sympy.true:
            return self._truth
        return graph.call_function(torch.sym_not, (self._truth,))


def is_check(node: fx.Node) -> bool:
    """Whether a node makes sure of something that is taken for granted."""
    return node.target is CHECK and _NUMBER.match(str(node.args[1])) is not None


def failed_check(error: BaseException) -> int | None:
    """The number of the condition that does not hold, if an error says so."""
    found = _NUMBER.search(str(error))
    return None if found is None else int(found[1])


def behind_inputs(node: fx.Node) -> fx.Node:
    """Nothing but inputs comes before an input."""
    while node.next.op == "placeholder":
        node = node.next
    return node


def _between(first: fx.Node, last: fx.Node) -> Iterable[fx.Node]:
    node = first.next
    while node is not last:
        yield node
        node = node.next
