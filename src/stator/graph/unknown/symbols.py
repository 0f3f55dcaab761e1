"""Symbolic ints in the graph: FX nodes made from sympy expressions when they are used.

torch's `ShapeEnv` owns the symbols. This module knows where each comes from (a size, a stride or
the storage offset of an input; an int input) and writes an expression over them as nodes, once
each. What it knows is also what must hold for other inputs: `shape_guards`.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx
from torch.fx.proxy import GraphAppendingTracer

from stator.diagnostics.catalogue import RegionContents
from stator.graph.fakes.wrappers import is_wrapper, parts_of
from stator.graph.recording.errors import Unsupported
from stator.torchlib.operators import sym_log2
from stator.torchlib.shapes import PythonAnalysis, sympy_interp
from stator.torchlib.tensors import DisableTorchFunction

_READS: Final = ("size", "stride", "storage_offset")
SymbolicNumber: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool


def _function(target: Callable[..., Any], typed: bool = False) -> Any:
    """A call of a function in the graph, written as such: torch functions are off.

    What is `typed` is told the dtype of its result, too, of which there is only one.
    """

    def write(*args: Any) -> Any:
        args = args[:-1] if typed else args
        proxies = [arg for arg in args if isinstance(arg, fx.Proxy)]
        if not proxies:
            return target(*args)
        return proxies[0].tracer.create_proxy("call_function", target, args, {})

    return staticmethod(write)


def _chosen(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """The value of the first pair whose condition holds; that of the last one always does."""
    *others, (made, _) = pairs
    for value, condition in reversed(others):
        made = _function(torch.sym_ite).__func__(condition, value, made)
    return made


class Written(PythonAnalysis):  # type: ignore[misc, unused-ignore]
    """An expression as nodes.

    torch's own, for proxies, leaves roundings out: its guards are about whole numbers.
    """

    not_ = _function(torch.sym_not)
    maximum = _function(torch.sym_max)
    minimum = _function(torch.sym_min)
    piecewise = staticmethod(lambda *pairs: _chosen(pairs))
    sqrt = _function(torch.sym_sqrt)
    log2 = _function(sym_log2)  # type: ignore[attr-defined, unused-ignore]
    to_dtype = _function(torch.sym_float, typed=True)  # float64, or it is not written at all
    floor_to_int = _function(math.floor, typed=True)
    ceil_to_int = _function(math.ceil, typed=True)
    trunc_to_int = _function(torch.sym_int, typed=True)
    round_to_int = _function(round, typed=True)


@dataclass(frozen=True)
class Origin:
    """Where a symbolic number is read: `input.method(*args)`, or the input itself."""

    placeholder: fx.Node
    method: str | None = None
    args: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    """To what the input holds, if it is a wrapper."""

    @property
    def input(self) -> str:
        return str(self.placeholder.target)

    def read(self, value: Any) -> int:
        """The number, given the value of the input."""
        for name in self.path:
            value = getattr(value, name)
        return int(value if self.method is None else getattr(value, self.method)(*self.args))

    def __str__(self) -> str:
        call = f".{self.method}({', '.join(map(str, self.args))})" if self.method else ""
        return f"{'.'.join((self.input, *self.path))}{call}"


@dataclass(frozen=True)
class Fact:
    """What was assumed of an input: the number at `origin` is `number`, over the symbols."""

    origin: Origin
    number: torch.SymInt


@dataclass(frozen=True)
class Derived:
    """A number that a function gives for other numbers."""

    number: SymbolicNumber
    target: Any
    operands: tuple[Any, ...]
    in_tensors: bool
    """Whether the function is computed on tensors of float64, where backends change no order."""


def describe(nodes: Iterable[fx.Node]) -> None:
    """Metadata for new nodes that compute numbers, in their order."""
    for node in nodes:
        args = fx.map_arg(node.args, lambda each: each.meta["example_value"])
        assert callable(node.target)
        node.meta["example_value"] = node.target(*args)  # type: ignore[misc, unused-ignore]
        node.meta["source_fn_stack"] = [(node.name, node.target)]


def reads_size(node: fx.Node) -> bool:
    """Whether this module has put a node where a tensor is made, not where its size is used."""
    if node.op == "call_method":
        return node.target in _READS
    return node.target is torch.ops.aten.sym_size.int or node.target is torch.sym_ite


class Symbols:
    """The origin of each symbol, and the nodes of the expressions used so far."""

    def __init__(self, graph: fx.Graph, last_placeholder: Callable[[], fx.Node], mode: Any) -> None:
        self.graph = graph
        self._mode = mode  # in which torch's functions give fake tensors
        self._last_placeholder = last_placeholder
        self._tracer = GraphAppendingTracer(graph)
        self._nodes: dict[sympy.Basic, fx.Node] = {}
        self._defined: dict[sympy.Symbol, Fact] = {}  # the first one that reads just the symbol
        self._results: dict[sympy.Symbol, tuple[fx.Node, int, torch.SymInt]] = {}
        self._scalars: dict[sympy.Basic, Callable[[], fx.Node]] = {}  # numbers read from tensors
        self._bits: dict[sympy.Symbol, sympy.Basic] = {}  # those of bools
        self._derived: dict[sympy.Symbol, Derived] = {}
        self.facts: list[Fact] = []
        self._unbacked_inputs = False  # whether there are inputs with sizes that nobody knows

    def __bool__(self) -> bool:
        return bool(self.facts) or self.unbacked

    @property
    def unbacked(self) -> bool:
        """Whether there are numbers without a value, such as those that are read from tensors."""
        return bool(self._results or self._scalars) or self._unbacked_inputs

    def define_scalar(self, number: SymbolicNumber, read: Callable[[], fx.Node]) -> None:
        """Notes that a number which was read from a tensor is the result of the node `read()`."""
        expr = number.node.expr
        symbol = expr.args[0] if isinstance(expr, sympy.Eq) else expr
        known = symbol in self._defined or symbol in self._results or symbol in self._scalars
        if known or not isinstance(symbol, sympy.Symbol):
            return
        self._scalars[expr] = read
        if symbol is not expr:  # a bool: its symbol is 1 if it is true
            self._bits[symbol] = expr
            self._scalars[symbol] = lambda: self._bit(self._node(expr), symbol, number)

    def _bit(self, truth: fx.Node, symbol: sympy.Symbol, number: Any) -> fx.Node:
        with self.graph.inserting_after(truth):
            node = self.graph.call_function(torch.sym_ite, (truth, 1, 0))
        node.meta["source_fn_stack"] = [(node.name, torch.sym_ite)]
        node.meta["example_value"] = number.node.shape_env.create_symintnode(symbol, hint=None)
        return node

    def define_derived(self, derived: "Derived") -> None:
        """Notes that a number, a symbol of its own, is what a function gives for others."""
        self._derived[derived.number.node.expr] = derived

    def _computed(self, derived: "Derived") -> fx.Node:
        symbolic = (torch.SymInt, torch.SymFloat)
        number, target = derived.number, derived.target
        args = [self.argument(x) if isinstance(x, symbolic) else x for x in derived.operands]
        if not derived.in_tensors:
            return self._written(self.graph.call_function(target, tuple(args)), number)
        options: Any = {"dtype": torch.float64, "device": torch.device("cpu")}
        with self._mode, DisableTorchFunction():
            example = torch.scalar_tensor(1.0, **options)
        first = self.graph.call_function(torch.scalar_tensor, (args[0],), options)
        args[0] = self._written(first, example)
        result = self._written(self.graph.call_function(target, tuple(args)), example)
        return self._written(self.graph.call_method("item", (result,)), number)

    def _written(self, node: fx.Node, value: Any) -> fx.Node:
        node.meta["source_fn_stack"] = [(node.name, node.target)]
        node.meta["example_value"] = value
        return node

    def define_result(self, fake: torch.Tensor, node: fx.Node) -> None:
        """Notes sizes of a result that depend on values: they are read from the result itself."""
        sizes: Any = fake.shape
        for dim, size in enumerate(sizes):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                symbol = size.node.expr
                if symbol not in self._defined and symbol not in self._results:
                    if node.graph is not self.graph:
                        raise Unsupported(
                            "a size that depends on values, in a region of its own", RegionContents
                        )
                    self._results[symbol] = node, dim, size

    def define(self, number: object, origin: Origin) -> None:
        """Notes that a number, if it is symbolic, can be read at `origin`."""
        if isinstance(number, torch.SymInt):
            self._unbacked_inputs |= not number.node.has_hint()
            fact = Fact(origin, number)
            self.facts.append(fact)
            if isinstance(number.node.expr, sympy.Symbol):
                self._defined.setdefault(number.node.expr, fact)

    def define_tensor(
        self, fake: torch.Tensor, placeholder: fx.Node, path: tuple[str, ...] = ()
    ) -> None:
        """Notes the sizes, strides and the offset of an input."""
        for dim, size in enumerate(fake.shape):
            self.define(size, Origin(placeholder, "size", (dim,), path))
        for dim, stride in enumerate(fake.stride()):
            self.define(stride, Origin(placeholder, "stride", (dim,), path))
        self.define(fake.storage_offset(), Origin(placeholder, "storage_offset", (), path))
        if is_wrapper(fake):
            for name, part in parts_of(fake):
                self.define_tensor(part, placeholder, (*path, name))

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
        return self._node(expr)

    def defines(self, symbol: sympy.Symbol) -> bool:
        """Whether a node of the graph tells the number."""
        tables = (self._nodes, self._defined, self._results, self._scalars, self._derived)
        return any(symbol in table for table in tables)

    def truth_of(self, symbol: sympy.Symbol) -> fx.Node | None:
        """The node of the bool whose symbol this is, if it is one."""
        return self._node(self._bits[symbol]) if symbol in self._bits else None

    def node_of(self, symbol: sympy.Symbol) -> fx.Node:
        """The node of a symbol, whatever it has been replaced by since."""
        return self._node(symbol)

    def _node(self, expr: sympy.Basic) -> fx.Node:
        known = self._nodes.get(expr)
        if known is None:
            if expr in self._scalars:
                made = self._scalars[expr]()
            elif expr in self._derived:
                made = self._computed(self._derived[expr])
            elif isinstance(expr, sympy.Symbol):
                made = self._symbol(expr)
            else:
                made = self._expression(expr)
            known = self._nodes[expr] = made
        return known

    def _expression(self, expr: sympy.Basic) -> fx.Node:
        env = {
            symbol: fx.Proxy(self._node(symbol), self._tracer)
            for symbol in sorted(expr.free_symbols, key=str)
        }
        last = next(iter(reversed(self.graph.nodes)), None)
        made = sympy_interp(Written, env, expr)
        self._describe_since(last)
        node: fx.Node = made.node
        return node

    def _describe_since(self, last: fx.Node | None) -> None:
        """Metadata for the nodes behind `last`: their values follow from their arguments'."""
        new = list(itertools.takewhile(lambda n: n is not last, reversed(self.graph.nodes)))
        describe(reversed(new))

    def _symbol(self, symbol: sympy.Symbol) -> fx.Node:
        """The node of a symbol: an int input, or a size read before anything could change it."""
        fact = self._defined.get(symbol)
        if symbol in self._results:
            return self._result_size(*self._results[symbol])
        if fact is None:
            raise Unsupported(f"the symbolic int {symbol} is not a size of any graph input")
        origin = fact.origin
        if origin.method is None:
            return origin.placeholder
        holder, last = origin.placeholder, self._last_placeholder()
        for name in origin.path:
            with self.graph.inserting_after(last):
                holder = last = self.graph.call_function(getattr, (holder, name))
            holder.meta["source_fn_stack"] = [(holder.name, getattr)]
            holder.meta["example_value"] = getattr(holder.args[0].meta["example_value"], name)  # type: ignore[union-attr]
        with self.graph.inserting_after(last):
            node = self.graph.call_method(origin.method, (holder, *origin.args))
        node.meta["source_fn_stack"] = [(node.name, origin.method)]
        node.meta["example_value"] = fact.number
        return node

    def _result_size(self, result: fx.Node, dim: int, number: torch.SymInt) -> fx.Node:
        with self.graph.inserting_after(result):
            node = self.graph.call_function(torch.ops.aten.sym_size.int, (result, dim))
        node.meta["source_fn_stack"] = [(node.name, node.target)]
        node.meta["example_value"] = number
        return node
