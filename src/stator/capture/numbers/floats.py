"""Floats that a trace leaves open: a learning rate that decays, a temperature.

Stage: capture. In: a float of the world that has changed between calls. Out: a number that only the
graph knows (`capture.scalars`): the graph gets it as a tensor of float64 without dimensions, and
reads it from there, so that it is a Python float to all operators.

What the program decides by it (`if rate > 0.5`) is answered with what it is in this call, and
becomes a guard. Where only the float itself will do (a key, C code), it has to be this one from
then on, and the others stay open.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator._native._core import Frame
from stator.capture.trace.wanted import MOST_OPEN, Wanted
from stator.diagnostics.breaks import stack
from stator.diagnostics.places import users_own
from stator.graph.unknown.scalars import symbol_of
from stator.guards import Equal, Guard, Source, TypeIs
from stator.guards.checks import Relation
from stator.guards.expressions import Binary, Expr, Float, Real, Unary
from stator.guards.symbolic import DEEPEST, MOST_LEAVES
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_OPERATORS: Final[Mapping[Any, str]] = {
    operator.add: "FADD",
    operator.sub: "FSUB",
    operator.mul: "FMUL",
    operator.truediv: "FDIV",
    operator.neg: "FNEG",
    operator.abs: "FABS",
    operator.lt: "FLT",
    operator.le: "FLE",
    operator.eq: "FEQ",
    operator.ne: "FNE",
    operator.gt: "FGT",
    operator.ge: "FGE",
}
_EQUALITIES: Final = ("FEQ", "FNE")
_LARGEST: Final = 1 << 53  # of the ints that are floats as well


class _Known(NamedTuple):
    """A number that follows from floats of the world: how, what it is now, and from which."""

    expr: Expr | None
    """None if guards can't compute it: something in it is infinite, or no number, or too much."""
    value: Any
    roots: Mapping[Source, float]
    depth: int = 1
    """How many values its evaluation keeps at once."""


class Floats:
    """The floats that one trace leaves open."""

    def __init__(self, tensors: "Tensors", wanted: "Wanted") -> None:
        self._tensors = tensors
        self._wanted = wanted
        self.inputs: dict[int, torch.Tensor] = {}  # what stands for them, by id
        self._sources: dict[int, tuple[Any, Source]] = {}  # by id of the number
        self._known: dict[sympy.Symbol, _Known] = {}

    def __bool__(self) -> bool:
        return bool(self.inputs)

    def number(self, raw: float, source: Source) -> Any:
        """A float of the world; MISSING if it is not left open, as nans are not."""
        if raw != raw or len(self.inputs) >= MOST_OPEN or not self._wanted.opens_float(str(source)):
            return MISSING
        tensors = self._tensors
        with DisableTorchFunction():
            double = torch.tensor(raw, dtype=torch.float64, device="cpu")
            fake = tensors.graph.add_input(str(source), double)
        self.inputs[id(double)] = double
        tensors.sources[id(double)] = source
        number = tensors.scalars.doubles.number(None, fake)
        self._sources[id(number)] = number, source
        symbol = symbol_of(number)
        if symbol is not None:
            self._known[symbol] = _Known(Float(source), raw, {source: raw})
        tensors.world.guard(source, TypeIs(float))
        return number

    def source_of(self, number: Any) -> Source | None:
        """Where a number is found in the world, if it is there."""
        known = self._sources.get(id(number))
        return None if known is None else known[1]

    # ------------------------------------------------------------------ what follows from them

    def define(self, number: Any, function: Any, operands: tuple[Any, ...]) -> None:
        """The graph computes a number by an operator."""
        symbol, op = self._symbol(number), _OPERATORS.get(function)
        parts = [self._part(operand) for operand in operands]
        if symbol is None or op is None or symbol in self._known:
            return
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return
        try:
            value = function(*(part.value for part in known))
        except ArithmeticError:
            return
        exprs = [part.expr for part in known if part.expr is not None]
        expr: Expr | None = None
        roots = {source: raw for part in known for source, raw in part.roots.items()}
        depth = max(index + part.depth for index, part in enumerate(known))
        usual = type(value) is bool or math.isfinite(value)
        if len(exprs) == len(known) and usual and len(roots) <= MOST_LEAVES and depth < DEEPEST:
            expr = Unary(op, *exprs) if len(exprs) == 1 else Binary(op, *exprs)
        self._known[symbol] = _Known(expr, value, roots, depth)

    def _symbol(self, number: Any) -> sympy.Symbol | None:
        if type(number) is not torch.SymFloat and type(number) is not torch.SymBool:
            return None
        return symbol_of(number)

    def _part(self, operand: Any) -> _Known | None:
        kind = type(operand)
        if kind is float:
            return _Known(Real(operand), operand, {})
        if kind is int or kind is bool:
            if abs(operand) > _LARGEST:
                return None
            return _Known(Real(float(operand)), int(operand), {})
        symbol = self._symbol(operand)
        return None if symbol is None else self._known.get(symbol)

    def decided(self, frame: Frame | None, condition: Any) -> bool | None:
        """What a condition is in this call, which it has to be from now on; None if unknown."""
        symbol = self._symbol(condition)
        known = None if symbol is None else self._known.get(symbol)
        if known is None or type(known.value) is not bool:
            return None
        if known.expr is None:
            return bool(self.fixed(condition))
        holds = known.expr if known.value else Unary("NOT", known.expr)
        self._tensors.world.guards.append(Guard(None, Relation(holds, _line(frame))))
        if type(known.expr) is Binary and known.expr.op in _EQUALITIES:
            self._none_is_nan(frame, known.roots)
        return known.value

    def _none_is_nan(self, frame: Frame | None, roots: Iterable[Source]) -> None:
        """It may be a container that compares: it finds a nan by its identity."""
        for source in roots:
            itself = Binary("FEQ", Float(source), Float(source))
            self._tensors.world.guards.append(Guard(None, Relation(itself, _line(frame))))

    def knows(self, number: Any) -> bool:
        """Whether a number follows from floats of the world."""
        symbol = self._symbol(number)
        return symbol is not None and symbol in self._known

    def fixed(self, number: Any) -> Any:
        """The number itself, which it has to be from now on; as it is, if that is unknown."""
        symbol = self._symbol(number)
        known = None if symbol is None else self._known.get(symbol)
        if known is None:
            return number
        for source, raw in known.roots.items():
            self._tensors.world.guard(source, Equal(raw))
        return known.value


def _line(frame: Frame | None) -> str:
    if frame is None or frame.finished:
        return ""
    found = users_own(stack(frame))
    return f"{found.file}:{found.line}"
