"""Floats that follow from sizes and ints which are left open: `n / 2`, `d ** -0.5`.

Stage: capture. In: operators and functions of `math` on symbolic ints with a value, and on such
floats. Out: symbolic floats with a value, and ints computed from them (`math.ceil(n / k)`); for
guards, what each of them is of the sizes and ints of a call.

torch has floats of its own over sizes, but computes with them as with real numbers: it changes the
order of sums and products. So each float here is a symbol of its own, which torch knows nothing of
but its value, and a *definition*: an operator and its operands. Graphs compute it by CPython's own
operator, guards natively to the bit (`guards.expressions`). That it is finite is guarded, unless it
always is: torch takes `f == f` for true.

Rounded, most are integers again: `int(n * 0.5)` is `n // 2`.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator._native._core import Frame
from stator.graph.unknown.symbols import Derived
from stator.guards.expressions import REAL, Binary, Constant, Expr, Real, Unary
from stator.guards.symbolic import translated
from stator.objects import TypeSet
from stator.torchlib.operators import sym_log2
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.numbers.shapes import Shapes

EXACT: Final = 1 << 53  # as far as a float tells integers apart
_SHORT: Final = 1 << 20  # of fractions that are written as two integers
_LARGEST: Final = 1 << 62  # of ints that graphs compute with
_NUMBERS: Final = TypeSet(int, bool, float, torch.SymInt, torch.SymFloat)
_SYMBOLIC: Final = TypeSet(torch.SymInt, torch.SymFloat)
_WHOLE: Final = TypeSet(int, torch.SymInt)
_COMPARISONS: Final = frozenset(
    (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
)
_OPERATORS: Final[dict[Any, str]] = {
    operator.add: "FADD",
    operator.sub: "FSUB",
    operator.mul: "FMUL",
    operator.truediv: "FDIV",
    operator.pow: "FPOW",
    operator.neg: "FNEG",
    operator.abs: "FABS",
}
# How a graph computes it; on symbolic numbers of a backend, too.
_TARGETS: Final[dict[str, Any]] = {
    **{name: function for function, name in _OPERATORS.items()},
    "TRUEDIV": operator.truediv,
    "TOFLOAT": torch.sym_float,
    "FSQRT": torch.sym_sqrt,
    "FLOG2": sym_log2,  # type: ignore[attr-defined, unused-ignore]
    "FMAX": torch.sym_max,
    "FMIN": torch.sym_min,
    "FTRUNC": torch.sym_int,
    "FFLOOR": math.floor,
    "FCEIL": math.ceil,
    "FROUND": round,
}
_ROUNDINGS: Final[dict[Any, str]] = {
    torch.trunc: "FTRUNC",
    torch.floor: "FFLOOR",
    torch.ceil: "FCEIL",
    torch.round: "FROUND",
}
_ON_TENSORS: Final[dict[str, Any]] = {"FADD": torch.add, "FSUB": torch.sub, "FMUL": torch.mul}
_OF_INTS: Final = frozenset({"TRUEDIV", "TOFLOAT"})


class Definition(NamedTuple):
    """What a symbol stands for."""

    op: str
    operands: tuple[Any, ...]
    bound: float
    """No value of it is larger, whatever the sizes are."""
    sums: int
    """How many sums and products there are in it."""


class Reals:
    """The floats of one trace that follow from sizes and ints, and what is computed from them."""

    def __init__(self, shapes: "Shapes", graph: Any) -> None:
        self._shapes = shapes
        self._env = graph.shape_env
        self._symbols = graph.symbols
        self._definitions: dict[sympy.Symbol, Definition] = {}
        self._made: dict[tuple[Any, ...], Any] = {}  # by definition

    # ------------------------------------------------------------------ in the trace

    def operate(self, frame: Frame | None, function: Any, operands: Sequence[Any]) -> Any:
        """An operator between numbers with values, one of which is a float; MISSING if unknown."""
        if not all(_NUMBERS.holds(type(value)) for value in operands):
            return MISSING
        operands = [int(value) if type(value) is bool else value for value in operands]
        if any(abs(hint(value)) > EXACT for value in operands if _WHOLE.holds(type(value))):
            return MISSING
        if function in _COMPARISONS:
            return self._compared(frame, function, operands)
        op = _OPERATORS.get(function)
        whole = all(_WHOLE.holds(type(value)) for value in operands)
        if op == "FDIV" and whole:
            op = "TRUEDIV"
        elif function is operator.pos:
            return operands[0]
        elif op is None or (whole and op != "FPOW"):
            return MISSING
        value = _computed(function, operands)
        if not _is_usual(value) or not self._is_defined(frame, op, operands, whole):
            return MISSING
        return self._number(op, operands, value)

    def _compared(self, frame: Frame | None, function: Any, operands: Sequence[Any]) -> Any:
        if any(type(value) is float and not math.isfinite(value) for value in operands):
            return function(*map(hint, operands))  # all others are finite
        with DisableTorchFunction():
            condition = function(*operands)
        return self._shapes.decided(frame, condition)

    def _is_defined(
        self, frame: Frame | None, op: str, operands: Sequence[Any], whole: bool
    ) -> bool:
        """Whether an operator is of the kind that it was in this call, from now on."""
        if op in ("TRUEDIV", "FDIV"):
            return self.operate_on(frame, operator.ne, operands[1], 0)
        if op == "FPOW":
            base, exponent = operands
            if not self.operate_on(frame, operator.gt, base, 0):
                return False
            return not whole or self.operate_on(frame, operator.lt, exponent, 0)
        return True

    def operate_on(self, frame: Frame | None, function: Any, a: Any, b: Any) -> bool:
        """The answer of a comparison, which it has to be from now on."""
        if not _SYMBOLIC.holds(type(a)):
            return bool(function(a, b))
        with DisableTorchFunction():
            condition = function(a, b)
        return self._shapes.decided(frame, condition)

    def function(self, frame: Frame | None, op: str, value: Any) -> Any:
        """`float`, or a function of `math`, of a number with a value; MISSING if unknown."""
        if not _SYMBOLIC.holds(type(value)):
            return MISSING
        if op == "TOFLOAT" and type(value) is torch.SymFloat:
            return value
        known = _computed(_MEANING[op], [value])
        if not _is_usual(known):
            return MISSING
        least = _LEAST.get(op)
        if least is not None and not self.operate_on(frame, *least(value)):
            return MISSING
        return self._number(op, [value], known)

    def extreme(self, op: str, a: Any, b: Any) -> Any:
        """The greater (smaller) of two floats."""
        known = (max if op == "FMAX" else min)(hint(a), hint(b))
        return self._number(op, [a, b], known) if _is_usual(known) else MISSING

    def rounded(self, frame: Frame | None, rounding: Any, value: torch.SymFloat) -> Any:
        """An int from a float with a value."""
        op = _ROUNDINGS[rounding]
        known = _computed(_MEANING[op], [value])
        if known is MISSING or abs(known) > _LARGEST:
            return MISSING
        ratio = self._ratio(frame, value)
        if ratio is not None:
            dividend, divisor = ratio
            if type(divisor) is int and divisor == 1:
                return dividend
            found = self._quotient(frame, op, dividend, divisor)
            if found is not MISSING:
                return found
        return self._number(op, [value], known)

    def _ratio(self, frame: Frame | None, value: torch.SymFloat) -> tuple[Any, Any] | None:
        """Two ints, of which a float is the quotient, rounded once."""
        made = self._definition(value)
        if made is None:
            return None
        a, *others = made.operands
        match made.op:
            case "TOFLOAT":
                found = a, 1
            case "TRUEDIV":
                found = a, others[0]
            case "FMUL" | "FDIV":
                b = others[0]
                if made.op == "FMUL" and type(a) is float:
                    a, b = b, a
                if type(a) is not torch.SymInt or type(b) is not float or b <= 0:
                    return None
                above, below = b.as_integer_ratio()
                if made.op == "FDIV":
                    above, below = below, above
                if max(above, below) > _SHORT:
                    return None
                with DisableTorchFunction():
                    found = a * above, below
            case _:
                return None
        return found if self._is_exact(frame, *found) else None

    def _is_exact(self, frame: Frame | None, dividend: Any, divisor: Any) -> bool:
        """Whether no rounding reaches the next integer: the dividend is less than 2 ** 53."""
        if not (-EXACT < hint(dividend) < EXACT and 0 < hint(divisor) < EXACT):
            return False
        return (
            self.operate_on(frame, operator.lt, dividend, EXACT)
            and self.operate_on(frame, operator.gt, dividend, -EXACT)
            and self.operate_on(frame, operator.gt, divisor, 0)
            and self.operate_on(frame, operator.lt, divisor, EXACT)
        )

    def _quotient(self, frame: Frame | None, op: str, dividend: Any, divisor: Any) -> Any:
        if op == "FTRUNC":
            if hint(dividend) < 0 or not self.operate_on(frame, operator.ge, dividend, 0):
                return MISSING
            op = "FFLOOR"
        with DisableTorchFunction():
            if op == "FFLOOR":
                return dividend // divisor
            if op == "FCEIL":
                return (dividend + (divisor - 1)) // divisor
        return MISSING

    def _number(self, op: str, operands: Sequence[Any], value: Any) -> Any:
        key = (op, *(_key(operand) for operand in operands))
        found = self._made.get(key)
        if found is not None:
            return found
        number = self._made[key] = self._env.derived(value)
        given = tuple(operands)
        bound = _bounded(op, given, [self._bound(operand) for operand in given])
        sums = sum(map(self._sums, given)) + (op in _ON_TENSORS)
        self._definitions[number.node.expr] = Definition(op, given, bound, sums)
        # Of one sum or product, no backend has to change the order.
        in_tensors = sums > 1 and op in _ON_TENSORS
        target = _ON_TENSORS[op] if in_tensors else _TARGETS[op]
        self._symbols.define_derived(Derived(number, target, given, in_tensors))
        return number

    def _sums(self, value: Any) -> int:
        made = self._definition(value)
        return 0 if made is None else made.sums

    def _definition(self, value: Any) -> Definition | None:
        return self._definitions.get(value.node.expr) if _SYMBOLIC.holds(type(value)) else None

    def _bound(self, value: Any) -> float:
        if type(value) is torch.SymInt:
            return 2.0**63
        made = self._definition(value)
        return abs(float(value)) if made is None else made.bound

    def leaves_of(self, value: Any) -> Iterator[torch.SymInt]:
        """The sizes and ints that a number follows from."""
        made = self._definition(value)
        if made is not None:
            for operand in made.operands:
                yield from self.leaves_of(operand)
        elif type(value) is torch.SymInt:
            yield value

    # ------------------------------------------------------------------ the end

    def roots(self, symbols: set[Any]) -> set[Any]:
        """The symbols of sizes and ints behind some symbols."""
        found: set[Any] = set()
        for symbol in symbols:
            made = self._definitions.get(symbol)
            if made is None:
                found.add(symbol)
                continue
            for operand in made.operands:
                if _SYMBOLIC.holds(type(operand)):
                    found |= self.roots(operand.node._expr.free_symbols)
        return found

    def derived(self) -> dict[Any, set[Any]]:
        """All of them, and the symbols of sizes and ints behind each."""
        return {symbol: self.roots({symbol}) for symbol in self._definitions}

    def expression(self, symbol: Any, place: Callable[[Any], Expr | None]) -> Expr | None:
        """What a symbol is of the sizes and ints of a call; None if it is none of ours."""
        made = self._definitions.get(symbol)
        if made is None:
            return None
        parts = [self._part(operand, place) for operand in made.operands]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        if made.op not in _OF_INTS:
            known = [part if part.real else Unary("TOFLOAT", part) for part in known]
        return Unary(made.op, *known) if len(known) == 1 else Binary(made.op, *known)

    def _part(self, operand: Any, place: Callable[[Any], Expr | None]) -> Expr | None:
        if type(operand) is int:
            return Constant(operand)
        if type(operand) is float:
            return Real(operand)
        return translated(operand.node._expr, place)

    def conditions(self) -> Iterator[sympy.Basic]:
        """What must hold for all of them: floats are finite, and ints not too large."""
        for symbol, made in self._definitions.items():
            if made.op not in REAL:
                yield sympy.Le(sympy.Abs(symbol), _LARGEST, evaluate=False)
            elif not made.bound < _FINITE:
                yield sympy.Eq(symbol, symbol, evaluate=False)

    def names(self, place: Callable[[Any], Expr | None]) -> dict[Any, str]:
        """How they are called in messages."""
        found = {symbol: self.expression(symbol, place) for symbol in self._definitions}
        return {symbol: str(expr) for symbol, expr in found.items() if expr is not None}


_FINITE: Final = 1e300
_MEANING: Final[dict[str, Callable[[Any], Any]]] = {
    "TOFLOAT": float,
    "FSQRT": math.sqrt,
    "FLOG2": math.log2,
    "FTRUNC": math.trunc,
    "FFLOOR": math.floor,
    "FCEIL": math.ceil,
    "FROUND": round,
}
# For which numbers a function is defined.
_LEAST: Final[dict[str, Callable[[Any], tuple[Any, Any, Any]]]] = {
    "FSQRT": lambda value: (operator.ge, value, 0),
    "FLOG2": lambda value: (operator.gt, value, 0),
}


def hint(value: Any) -> Any:
    """The number that a symbolic one with a value is in this call."""
    return value.node.hint if _SYMBOLIC.holds(type(value)) else value


def _computed(function: Any, operands: Sequence[Any]) -> Any:
    try:
        return function(*map(hint, operands))
    except (ArithmeticError, ValueError):
        return MISSING  # the program will see to it


def _is_usual(value: Any) -> bool:
    """Not zero, of which there are two: torch would write either."""
    return type(value) is float and math.isfinite(value) and value != 0.0


def _key(operand: Any) -> tuple[Any, ...]:
    if _SYMBOLIC.holds(type(operand)):
        return type(operand), operand.node.expr
    return type(operand), repr(operand)


def _bounded(op: str, operands: Sequence[Any], bounds: Sequence[float]) -> float:
    """The largest value that an operator can give, if its operands have bounds."""
    try:
        match op:
            case "TRUEDIV" | "TOFLOAT" | "FNEG" | "FABS":
                return bounds[0]  # no divisor is less than one
            case "FSQRT":
                return math.sqrt(bounds[0])
            case "FLOG2":
                return 2048.0
            case "FADD" | "FSUB" | "FMAX" | "FMIN":
                return bounds[0] + bounds[1]
            case "FMUL":
                return bounds[0] * bounds[1]
            case "FDIV" if type(operands[1]) is float:
                return bounds[0] / bounds[1]
            case "FDIV" if type(operands[1]) in (int, torch.SymInt):
                return bounds[0]
            case "FPOW" if type(operands[1]) in (int, float) and operands[1] > 0:
                return float(max(bounds[0], 1.0) ** operands[1])
            case "FPOW" if _WHOLE.holds(type(operands[0])) and _is_negative(operands[1]):
                return 1.0
    except (OverflowError, ZeroDivisionError):
        pass
    return math.inf


def _is_negative(value: Any) -> bool:
    return type(value) in (int, float) and value < 0
