"""Integer expressions over what guards read: the relations between symbolic sizes.

Stage: guards. Leaves are integers found at sources (`Int`), lengths (`LenOf`) and extents of
tensors (`SizeOf`, `StrideOf`, `OffsetOf`). Arithmetic is that of 64-bit integers: an expression
that overflows or divides by zero does not hold.

    SizeOf(Local(0), 0) * 2 == SizeOf(Local(1), 0)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .layout import length_of
from .sources import Missing, Source

MINIMUM: Final = -(2**63)
MAXIMUM: Final = 2**63 - 1

# name → (how it is printed, its meaning)
BINARY: Final[dict[str, tuple[str, Callable[[int, int], int]]]] = {
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
}
UNARY: Final[dict[str, tuple[str, Callable[[int], int]]]] = {
    "NEG": ("-", operator.neg),
    "ABS": ("abs", abs),
    "NOT": ("not ", operator.not_),
}


class Undefined(Exception):  # noqa: N818 - an answer, not an error
    """The expression has no 64-bit value."""


@dataclass(frozen=True, eq=False)
class Expr:
    """An integer expression; operators build larger ones."""

    def postfix(self) -> Iterator[Expr]:
        """The expression's nodes, operands before operators."""
        yield self

    def value(self, read: Callable[[Source], Any]) -> int:
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


@dataclass(frozen=True, eq=False)
class SizeOf(Leaf):
    """One size of a tensor at a source."""

    dim: int

    op = "SIZE"
    method = "size"

    def value(self, read: Callable[[Source], Any]) -> int:
        tensor = read(self.source)
        base = next((c for c in type(tensor).__mro__ if c.__name__ == "TensorBase"), None)
        if base is None or self.dim >= tensor.dim():
            raise Undefined
        found = getattr(tensor, self.method)(self.dim)
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
        if not any(c.__name__ == "TensorBase" for c in type(tensor).__mro__):
            raise Undefined
        found = tensor.storage_offset()
        if type(found) is not int:
            raise Undefined
        return found

    def __str__(self) -> str:
        return f"{self.source}.storage_offset()"


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr

    def postfix(self) -> Iterator[Expr]:
        yield from self.operand.postfix()
        yield self

    def value(self, read: Callable[[Source], Any]) -> int:
        return bounded(UNARY[self.op][1](self.operand.value(read)))

    def __str__(self) -> str:
        return f"{UNARY[self.op][0]}({self.operand})"


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr

    def postfix(self) -> Iterator[Expr]:
        yield from self.left.postfix()
        yield from self.right.postfix()
        yield self

    def value(self, read: Callable[[Source], Any]) -> int:
        left, right = self.left.value(read), self.right.value(read)
        try:
            return bounded(BINARY[self.op][1](left, right))
        except ZeroDivisionError:
            raise Undefined from None

    def __str__(self) -> str:
        sign = BINARY[self.op][0]
        if sign.isalpha() and sign not in {"and", "or"}:
            return f"{sign}({self.left}, {self.right})"
        return f"({self.left} {sign} {self.right})"


def bounded(value: int) -> int:
    if not MINIMUM <= value <= MAXIMUM:
        raise Undefined
    return int(value)


def holds(expr: Expr, read: Callable[[Source], Any]) -> bool:
    """The slow meaning of a relation."""
    try:
        return expr.value(read) != 0
    except (Undefined, Missing):
        return False
