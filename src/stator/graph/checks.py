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
from torch.utils._sympy.interp import sympy_interp

from .purity import KEEP
from .symbols import Symbols, Written

CHECK: Final = torch.ops.aten._assert_scalar.default
_NUMBER: Final = re.compile(r"check (\d+): .* is taken for granted")


def insert_checks(graph: fx.Graph, symbols: Symbols, conditions: Sequence[Any]) -> None:
    """Writes conditions over symbols into the graph, in the order in which they were assumed."""
    places: dict[fx.Node, fx.Node] = {}  # behind which node -> the last one that was put there
    tracer = GraphAppendingTracer(graph)
    for number, condition in enumerate(conditions):
        if not all(map(symbols.defines, condition.free_symbols)):
            continue  # of a number inside of an operator, which makes sure of it when it runs
        free = sorted(condition.free_symbols, key=str)
        truth = symbols.truth_of(free[0]) if len(free) == 1 else None
        known = {symbol: symbols.node_of(symbol) if truth is None else truth for symbol in free}
        order = {node: position for position, node in enumerate(graph.nodes)}
        last = max(known.values(), key=order.__getitem__)
        behind = places.get(last, last)
        before = _behind_inputs(behind).next
        with graph.inserting_before(before):
            if truth is not None:
                made = _of_bool(graph, condition, truth)
            else:
                env = {symbol: fx.Proxy(node, tracer) for symbol, node in known.items()}
                made = sympy_interp(Written, env, condition).node
            check = graph.call_function(CHECK, (made, _message(number, condition)))
        check.meta[KEEP] = True
        _describe(_between(behind, check))
        places[last] = check


def _of_bool(graph: fx.Graph, condition: Any, truth: fx.Node) -> fx.Node:
    """A condition on a bool's symbol, which is 1 if it is true, by the bool itself.

    When a backend traces it again, torch may take a number made of a bool for known.
    """
    (symbol,) = condition.free_symbols
    if condition.xreplace({symbol: sympy.Integer(1)}) == sympy.true:
        return truth
    return graph.call_function(torch.sym_not, (truth,))


def _message(number: int, condition: Any) -> str:
    return f"check {number}: {condition} is taken for granted"


def failed_check(error: BaseException) -> int | None:
    """The number of the condition that does not hold, if an error says so."""
    found = _NUMBER.search(str(error))
    return None if found is None else int(found[1])


def _behind_inputs(node: fx.Node) -> fx.Node:
    """Nothing but inputs comes before an input."""
    while node.next.op == "placeholder":
        node = node.next
    return node


def _between(first: fx.Node, last: fx.Node) -> Iterable[fx.Node]:
    node = first.next
    while node is not last:
        yield node
        node = node.next


def _describe(nodes: Iterable[fx.Node]) -> None:
    """Metadata for new nodes: their values follow from their arguments'."""
    for node in nodes:
        if node.op == "call_function" and "example_value" not in node.meta:
            args = fx.map_arg(node.args, lambda each: each.meta["example_value"])
            assert callable(node.target)
            node.meta["example_value"] = node.target(*args)  # type: ignore[misc, unused-ignore]
            node.meta["source_fn_stack"] = [(node.name, node.target)]
