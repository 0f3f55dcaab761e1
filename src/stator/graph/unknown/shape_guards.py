"""What a graph with symbolic sizes assumes of its inputs.

In: an `OutputGraph`, after the backend ran (it may assume more). Out: `ShapeGuards`, from which
guards are compiled. `violation` evaluates them slowly, on any inputs: the reference in tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from stator.graph.recording.output import OutputGraph
from stator.graph.unknown.symbols import Origin


@dataclass(frozen=True)
class ShapeGuards:
    """The number at each origin in `equal` must be its expression, and `conditions` must hold.

    A symbol stands for the number at its origin in `symbols`.
    """

    symbols: dict[sympy.Symbol, Origin]
    equal: list[tuple[Origin, sympy.Expr]]
    conditions: list[sympy.Basic]
    ranges: int = 0
    """How many of the conditions, the first ones, say in which range a symbol is."""

    def violation(self, inputs: Mapping[str, Any]) -> str | None:
        """The first assumption that inputs (by placeholder name) don't meet; None if all hold."""
        values = {s: origin.read(inputs[origin.input]) for s, origin in self.symbols.items()}
        for origin, expr in self.equal:
            expected = expr.subs(values)
            if origin.read(inputs[origin.input]) != expected:
                return f"{origin} == {self._in_words(expr)}"
        for condition in self.conditions:
            if condition.subs(values) != sympy.true:
                return self._in_words(condition)
        return None

    def _in_words(self, expr: sympy.Basic) -> str:
        text = str(expr)
        for symbol, origin in self.symbols.items():
            text = text.replace(str(symbol), str(origin))
        return text


def shape_guards(graph: OutputGraph) -> ShapeGuards:
    """All that was assumed of the symbolic sizes so far."""
    symbols: dict[sympy.Symbol, Origin] = {}
    equal: list[tuple[Origin, sympy.Expr]] = []
    for fact in graph.symbols.facts:
        expr = fact.number.node._expr  # as it was when the input was added
        if isinstance(expr, sympy.Symbol) and expr not in symbols:
            symbols[expr] = fact.origin
        else:
            equal.append((fact.origin, expr))
    ranges = _ranges(graph, symbols)
    return ShapeGuards(symbols, equal, [*ranges, *_conditions(graph)], len(ranges))


def _ranges(graph: OutputGraph, symbols: dict[sympy.Symbol, Origin]) -> list[sympy.Basic]:
    """Sizes 0 and 1 are special to torch: a symbol is neither, unless its range says so."""
    found: list[sympy.Basic] = []
    for symbol, origin in symbols.items():
        known = graph.shape_env.var_to_range.get(symbol)
        if known is None:
            continue
        may_be_less = known.lower > 0 or origin.method is None  # no size is less than 0
        if isinstance(known.lower, sympy.Integer) and may_be_less:
            found.append(sympy.Ge(symbol, known.lower, evaluate=False))
        if isinstance(known.upper, sympy.Integer):
            found.append(sympy.Le(symbol, known.upper, evaluate=False))
    return found


def _conditions(graph: OutputGraph) -> list[sympy.Basic]:
    return [guard.expr for guard in graph.shape_env.guards]
