"""Expressions over what guards read: the relations between symbolic sizes.

Stage: guards. Leaves are numbers found at sources (`Int`, `Float`), lengths (`LenOf`) and extents
of tensors (`SizeOf`, `StrideOf`, `OffsetOf`). Arithmetic is that of 64-bit integers: an expression
that overflows or divides by zero does not hold. Floats, and those that follow from integers
(`n / 2`), have operations of their own (`TRUEDIV`, `TOFLOAT`, and those with an F). They are
CPython's floats to the bit; where they would not be, or get infinite, the expression does not hold.

    SizeOf(Local(0), 0) * 2 == SizeOf(Local(1), 0)
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from .layout import length_of
from .sources import Missing, Source

MINIMUM: Final = -(2**63)
MAXIMUM: Final = 2**63 - 1
_EXACT: Final = 2**53  # as far as a float tells integers apart


class Undefined(Exception):  # noqa: N818 - an answer, not an error
    """The expression has no 64-bit value."""


def _to_float(number: int) -> float:
    if not -_EXACT <= number <= _EXACT:
        raise Undefined
    return float(number)


def _power(base: float, exponent: float) -> float:
    if base <= 0:  # other bases have rules of their own
        raise Undefined
    return math.pow(base, exponent)


def _quotient(dividend: int, divisor: int) -> float:
    return _to_float(dividend) / _to_float(divisor)


# name → (how it is printed, its meaning)
BINARY: Final[dict[str, tuple[str, Callable[[Any, Any], Any]]]] = {
    "ADD": ("+", operator.add),
    "SUB": ("-", operator.sub),
    "MUL": ("*", operator.mul),
    "FLOORDIV": ("//", operator.floordiv),
    "MOD": ("%", operator.mod),
    "MIN": ("min", min),
    "MAX": ("max", max),
    "EQ": ("==", operator.eq),
    "NE": ("!=", operator.ne),
    "LT": ("<", operator.lt),
    "LE": ("<=", operator.le),
    "GT": (">", operator.gt),
    "GE": (">=", operator.ge),
    "AND": ("and", lambda a, b: bool(a) and bool(b)),
    "OR": ("or", lambda a, b: bool(a) or bool(b)),
    "TRUEDIV": ("/", _quotient),
    "FADD": ("+", operator.add),
    "FSUB": ("-", operator.sub),
    "FMUL": ("*", operator.mul),
    "FDIV": ("/", operator.truediv),
    "FPOW": ("**", _power),
    "FMIN": ("min", min),
    "FMAX": ("max", max),
    "FEQ": ("==", operator.eq),
    "FNE": ("!=", operator.ne),
    "FLT": ("<", operator.lt),
    "FLE": ("<=", operator.le),
    "FGT": (">", operator.gt),
    "FGE": (">=", operator.ge),
}
UNARY: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "NEG": ("-", operator.neg),
    "ABS": ("abs", abs),
    "NOT": ("not ", operator.not_),
    "TOFLOAT": ("float", _to_float),
    "FNEG": ("-", operator.neg),
    "FABS": ("abs", abs),
    "FSQRT": ("sqrt", math.sqrt),
    "FLOG2": ("log2", math.log2),
    "FFLOOR": ("floor", math.floor),
    "FCEIL": ("ceil", math.ceil),
    "FTRUNC": ("int", math.trunc),
    "FROUND": ("round", round),
}
_FLOAT_FUNCTIONS: Final = ("TOFLOAT", "FNEG", "FABS", "FSQRT", "FLOG2")
_FLOAT_OPERATORS: Final = ("TRUEDIV", "FADD", "FSUB", "FMUL", "FDIV", "FPOW", "FMIN", "FMAX")
REAL: Final = frozenset({*_FLOAT_FUNCTIONS, *_FLOAT_OPERATORS})
"""What gives a float."""


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression; operators build larger ones, of integers."""

    @property
    def real(self) -> bool:
        """Whether it is a float."""
        return False

    @property
    def operands(self) -> tuple[Expr, ...]:
        """What an operator is applied to."""
        return ()

    def postfix(self) -> Iterator[Expr]:
        """The expression's nodes, operands before operators."""
        left: list[Expr] = [self]
        found: list[Expr] = []
        while left:
            node = left.pop()
            found.append(node)
            left += node.operands
        return reversed(found)

    def value(self, read: Callable[[Source], Any]) -> Any:
        raise NotImplementedError

    def __add__(self, other: Expr | int) -> Expr:
        return Binary("ADD", self, lift(other))

    def __sub__(self, other: Expr | int) -> Expr:
        return Binary("SUB", self, lift(other))

    def __mul__(self, other: Expr | int) -> Expr:
        return Binary("MUL", self, lift(other))

    def __floordiv__(self, other: Expr | int) -> Expr:
        return Binary("FLOORDIV", self, lift(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return Binary("MOD", self, lift(other))

    def __neg__(self) -> Expr:
        return Unary("NEG", self)

    def __eq__(self, other: Expr | int) -> Expr:  # type: ignore[override]
        return Binary("EQ", self, lift(other))

    def __ne__(self, other: Expr | int) -> Expr:  # type: ignore[override]
        return Binary("NE", self, lift(other))

    def __lt__(self, other: Expr | int) -> Expr:
        return Binary("LT", self, lift(other))

    def __le__(self, other: Expr | int) -> Expr:
        return Binary("LE", self, lift(other))

    def __gt__(self, other: Expr | int) -> Expr:
        return Binary("GT", self, lift(other))

    def __ge__(self, other: Expr | int) -> Expr:
        return Binary("GE", self, lift(other))

    def __hash__(self) -> int:
        return id(self)


def lift(value: Expr | int) -> Expr:
    return value if isinstance(value, Expr) else Constant(value)


@dataclass(frozen=True, eq=False)
class Constant(Expr):
    number: int

    def __post_init__(self) -> None:
        if not MINIMUM <= self.number <= MAXIMUM:
            raise OverflowError(f"{self.number} is no 64-bit integer")

    def value(self, read: Callable[[Source], Any]) -> int:
        return self.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, eq=False)
class Real(Expr):
    """A float that is the same for all calls."""

    number: float

    @property
    def real(self) -> bool:
        return True

    @property
    def bits(self) -> int:
        """What the native tree reads as a double."""
        (found,) = struct.unpack("<q", struct.pack("<d", self.number))
        return int(found)

    def value(self, read: Callable[[Source], Any]) -> float:
        return self.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, eq=False)
class Leaf(Expr):
    """Something read from a source."""

    source: Source

    op = ""
    dim = 0


@dataclass(frozen=True, eq=False)
class Int(Leaf):
    """An int (not a bool) at a source."""

    op = "INT"

    def value(self, read: Callable[[Source], Any]) -> int:
        found = read(self.source)
        if type(found) is not int or not MINIMUM <= found <= MAXIMUM:
            raise Undefined
        return found

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True, eq=False)
class Float(Leaf):
    """A float at a source."""

    op = "REAL"

    @property
    def real(self) -> bool:
        return True

    def value(self, read: Callable[[Source], Any]) -> float:
        found = read(self.source)
        if type(found) is not float:
            raise Undefined
        return found

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True, eq=False)
class LenOf(Leaf):
    """The length of a container at a source."""

    op = "LEN"

    def value(self, read: Callable[[Source], Any]) -> int:
        length = length_of(read(self.source))
        if length < 0:
            raise Undefined
        return length

    def __str__(self) -> str:
        return f"len({self.source})"


def _unseen() -> AbstractContextManager[Any]:
    """What is asked of a tensor inside is not answered by the Python code of a subclass."""
    tensors: Any = import_module("stator.torchlib.tensors")  # here: this package works without
    scope: AbstractContextManager[Any] = tensors.DisableTorchFunction()
    return scope


@dataclass(frozen=True, eq=False)
class SizeOf(Leaf):
    """One size of a tensor at a source."""

    dim: int

    op = "SIZE"
    method = "size"

    def value(self, read: Callable[[Source], Any]) -> int:
        tensor = read(self.source)
        base: Any = next((c for c in type(tensor).__mro__ if c.__name__ == "TensorBase"), None)
        if base is None:
            raise Undefined
        with _unseen():
            inside = self.dim < base.dim(tensor)
            found = getattr(base, self.method)(tensor, self.dim) if inside else None
        if type(found) is not int:
            raise Undefined
        return found

    def __str__(self) -> str:
        return f"{self.source}.{self.method}({self.dim})"


@dataclass(frozen=True, eq=False)
class StrideOf(SizeOf):
    """One stride of a tensor at a source."""

    op = "STRIDE"
    method = "stride"


@dataclass(frozen=True, eq=False)
class OffsetOf(Leaf):
    """How many elements into its storage a tensor at a source begins."""

    op = "OFFSET"

    def value(self, read: Callable[[Source], Any]) -> int:
        tensor = read(self.source)
        base: Any = next((c for c in type(tensor).__mro__ if c.__name__ == "TensorBase"), None)
        if base is None:
            raise Undefined
        with _unseen():
            found = base.storage_offset(tensor)
        if type(found) is not int:
            raise Undefined
        return found

    def __str__(self) -> str:
        return f"{self.source}.storage_offset()"


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)

    @property
    def real(self) -> bool:
        return self.op in REAL

    def value(self, read: Callable[[Source], Any]) -> Any:
        try:
            return bounded(UNARY[self.op][1](self.operand.value(read)))
        except ValueError:  # of a number for which a function is not defined
            raise Undefined from None

    def __str__(self) -> str:
        return f"{UNARY[self.op][0]}({self.operand})"


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.left, self.right

    @property
    def real(self) -> bool:
        return self.op in REAL

    def value(self, read: Callable[[Source], Any]) -> Any:
        left, right = self.left.value(read), self.right.value(read)
        try:
            return bounded(BINARY[self.op][1](left, right))
        except (ZeroDivisionError, OverflowError):
            raise Undefined from None

    def __str__(self) -> str:
        sign = BINARY[self.op][0]
        if sign.isalpha() and sign not in {"and", "or"}:
            return f"{sign}({self.left}, {self.right})"
        return f"({self.left} {sign} {self.right})"


def bounded(value: Any) -> Any:
    if type(value) is float:
        if not math.isfinite(value):
            raise Undefined
        return value
    if not MINIMUM <= value <= MAXIMUM:
        raise Undefined
    return int(value)


def holds(expr: Expr, read: Callable[[Source], Any]) -> bool:
    """The slow meaning of a relation."""
    try:
        return bool(expr.value(read) != 0)
    except (Undefined, Missing):
        return False
