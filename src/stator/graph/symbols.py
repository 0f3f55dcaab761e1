"""Symbolic ints in the graph: FX nodes made from sympy expressions when they are used.

torch's `ShapeEnv` owns the symbols. This module knows where each comes from (a size, a stride or
the storage offset of an input; an int input) and writes an expression over them as nodes, once
each.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import OptimizedPythonReferenceAnalysis

from .errors import Unsupported

Origin: TypeAlias = Callable[[], fx.Node]
SymbolicNumber: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool


class Symbols:
    """The origin of each symbol, and the nodes of the expressions used so far."""

    def __init__(self, graph: fx.Graph) -> None:
        self._tracer = GraphAppendingTracer(graph)
        self._origins: dict[sympy.Symbol, Origin] = {}
        self._nodes: dict[sympy.Basic, fx.Node] = {}

    def __bool__(self) -> bool:
        return bool(self._origins)

    def define(self, number: object, origin: Origin) -> None:
        """`origin` makes the node of this number, if it is a symbol that has none yet."""
        if isinstance(number, torch.SymInt):
            expr = number.node.expr
            if isinstance(expr, sympy.Symbol):
                self._origins.setdefault(expr, origin)

    def define_tensor(self, fake: torch.Tensor, size_of: Callable[[str, Any], fx.Node]) -> None:
        """Sizes, strides and the offset of an input; `size_of(method, args)` makes the node."""
        for dim, size in enumerate(fake.shape):
            self.define(size, lambda dim=dim: size_of("size", (dim,)))  # type: ignore[misc]
        for dim, stride in enumerate(fake.stride()):
            self.define(stride, lambda dim=dim: size_of("stride", (dim,)))  # type: ignore[misc]
        self.define(fake.storage_offset(), lambda: size_of("storage_offset", ()))

    def argument(self, number: SymbolicNumber) -> fx.Node | int | float | bool:
        """A symbolic number as the argument of a node: another node, or what it always is."""
        node = number.node
        expr = node.shape_env.replace(node.expr)
        if isinstance(expr, sympy.Integer):
            return int(expr)
        if isinstance(expr, sympy.Number):
            return float(expr)
        if expr in (sympy.true, sympy.false):
            return bool(expr)
        return self._node(expr, number)

    def _node(self, expr: sympy.Basic, number: SymbolicNumber) -> fx.Node:
        known = self._nodes.get(expr)
        if known is not None:
            return known
        if isinstance(expr, sympy.Symbol):
            return self._symbol(expr, number)
        env = {
            symbol: fx.Proxy(self._symbol(symbol, None), self._tracer)
            for symbol in sorted(expr.free_symbols, key=str)
            if isinstance(symbol, sympy.Symbol)
        }
        made = sympy_interp(OptimizedPythonReferenceAnalysis, env, expr)
        node: fx.Node = made.node
        node.meta["example_value"] = number
        node.meta["source_fn_stack"] = [(node.name, node.target)]
        self._nodes[expr] = node
        return node

    def _symbol(self, symbol: sympy.Symbol, number: SymbolicNumber | None) -> fx.Node:
        node = self._nodes.get(symbol)
        if node is None:
            origin = self._origins.get(symbol)
            if origin is None:
                raise Unsupported(f"the symbolic int {symbol} is not a size of any graph input")
            node = self._nodes[symbol] = origin()
            if number is not None:
                node.meta.setdefault("example_value", number)
        return node
