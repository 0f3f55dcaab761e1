"""Sizes that depend on values, as nodes of their own: `x[mask]` is followed by the number of rows.

In: a finished graph. Out: the same, with `sym_size` and an assertion that is always true behind the
first tensor that has such a size.

A backend that differentiates a graph gives its backward the numbers that sizes are computed from,
if there are nodes for them: without one, the size `u0 + 6` of a tensor that is kept for the
backward can't be told there, since nobody knows `u0`. A node that nothing needs would be dropped on
the way, hence the assertion.
"""

import operator
from collections.abc import Iterator
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx

from stator.graph.passes.purity import KEEP
from stator.graph.unknown.checks import CHECK, behind_inputs
from stator.graph.unknown.symbols import describe

_SIZE: Final = torch.ops.aten.sym_size.int


def name_sizes(graph: fx.Graph, backed: Any) -> None:
    """Writes a size node for each symbol without a value; `backed` are the others."""
    named: set[sympy.Symbol] = set()
    for node in list(graph.nodes):
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            continue
        for dim, symbol in _unknown(value, backed):
            if symbol not in named:
                named.add(symbol)
                _name(graph, node, dim, symbol)


def _unknown(value: torch.Tensor, backed: Any) -> Iterator[tuple[int, sympy.Symbol]]:
    sizes: Any = value.shape
    for dim, size in enumerate(sizes):
        if isinstance(size, torch.SymInt):
            expr = size.node.expr
            if isinstance(expr, sympy.Symbol) and expr not in backed:
                yield dim, expr


def _name(graph: fx.Graph, node: fx.Node, dim: int, symbol: sympy.Symbol) -> None:
    known = (user for user in node.users if user.target is _SIZE and user.args[1] == dim)
    size = next(known, None)
    if size is None:
        with graph.inserting_before(behind_inputs(node).next):
            size = graph.call_function(_SIZE, (node, dim))
        describe([size])
    with graph.inserting_before(size.next):
        truth = graph.call_function(operator.ge, (size, 0))
        kept = graph.call_function(CHECK, (truth, f"{symbol} is a size"))
    describe([truth])
    kept.meta[KEEP] = True
