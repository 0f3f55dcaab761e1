"""From torch's symbolic conditions to native ones.

Stage: guards, with torch's symbols. In: a sympy expression over symbols that stand for sizes and
ints, and where each symbol is read. Out: the same over these places, for the native tree; None if
it says something that the tree can't compute.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from stator.torchlib.shapes import functions

from .expressions import MAXIMUM, MINIMUM, Binary, Constant, Expr, Leaf, Real, Unary

DEEPEST: Final = 48  # values on the native stack, which has room for 64
_LARGEST_POWER: Final = 8
MOST_LEAVES: Final = 64  # places that one native relation reads

_FOLDED: Final[dict[Any, str]] = {
    sympy.Add: "ADD",
    sympy.Mul: "MUL",
    sympy.And: "AND",
    sympy.Or: "OR",
    sympy.Max: "MAX",
    sympy.Min: "MIN",
    functions.Max: "MAX",
    functions.Min: "MIN",
}
# `Mod` is that of numbers that are not negative; where both have a value, it is the same.
_PAIRS: Final[dict[Any, str]] = {
    functions.FloorDiv: "FLOORDIV",
    functions.CleanDiv: "FLOORDIV",
    functions.PythonMod: "MOD",
    functions.Mod: "MOD",
    sympy.Eq: "EQ",
    sympy.Ne: "NE",
    sympy.StrictLessThan: "LT",
    sympy.LessThan: "LE",
    sympy.StrictGreaterThan: "GT",
    sympy.GreaterThan: "GE",
}
# The same between floats; what is an integer becomes one first, as in CPython.
_OF_FLOATS: Final[dict[str, str]] = {
    "ADD": "FADD",
    "MUL": "FMUL",
    "MAX": "FMAX",
    "MIN": "FMIN",
    "EQ": "FEQ",
    "NE": "FNE",
    "LT": "FLT",
    "LE": "FLE",
    "GT": "FGT",
    "GE": "FGE",
}
_REORDERED: Final = frozenset({"FADD", "FMUL"})  # by sympy, which matters if there are three
_FROM_FLOAT: Final[dict[Any, str]] = {
    functions.TruncToInt: "FTRUNC",
    functions.FloorToInt: "FFLOOR",
    functions.CeilToInt: "FCEIL",
    functions.RoundToInt: "FROUND",
    functions.OpaqueUnaryFn_sqrt: "FSQRT",
    functions.OpaqueUnaryFn_log2: "FLOG2",
}
_FLOAT_PAIRS: Final[dict[Any, str]] = {
    functions.FloatTrueDiv: "FDIV",
    functions.FloatPow: "FPOW",
}


class _Unknown(Exception):  # noqa: N818 - an answer, not an error
    """The native tree can't compute this."""


class Translator:
    """Translates expressions, what they have in common once."""

    def __init__(self, place: Callable[[Any], Expr | None]) -> None:
        """`place` is where a symbol is read, or what is computed for it."""
        self._place = place
        self._known: dict[sympy.Basic, Expr | None] = {}
        self._depths: dict[int, int] = {}  # by id; `_known` keeps them

    def __call__(self, expr: sympy.Basic) -> Expr | None:
        """A condition or number as the native tree computes it; None if it can't."""
        try:
            made = self._part(expr)
        except _Unknown:
            return None
        return made if self._depth(made) <= DEEPEST and _is_narrow(made) else None

    def _part(self, expr: sympy.Basic) -> Expr:
        if expr not in self._known:
            self._known[expr] = None
            self._known[expr] = _translated(expr, self._place, self._part)
        found = self._known[expr]
        if found is None:
            raise _Unknown
        return found

    def _depth(self, expr: Expr) -> int:
        """How many values its evaluation keeps at once."""
        found = self._depths.get(id(expr))
        if found is None:
            inner = map(self._depth, expr.operands)
            found = max((index + depth for index, depth in enumerate(inner)), default=1)
            self._depths[id(expr)] = found
        return found


def _is_narrow(expr: Expr) -> bool:
    """Whether the native tree can hold all that it reads."""
    leaves = [step for step in expr.postfix() if isinstance(step, Leaf)]
    if len(leaves) <= MOST_LEAVES:
        return True
    return len({(step.op, id(step.source), step.dim) for step in leaves}) <= MOST_LEAVES


def translated(expr: sympy.Basic, place: Callable[[Any], Expr | None]) -> Expr | None:
    """A condition or number as the native tree computes it; `place` is where a symbol is read."""
    return Translator(place)(expr)


def _translated(
    expr: sympy.Basic,
    place: Callable[[Any], Expr | None],
    part_of: Callable[[sympy.Basic], Expr],
) -> Expr:
    kind = type(expr)
    if isinstance(expr, sympy.Symbol):
        leaf = place(expr)
        if leaf is None:
            raise _Unknown
        return leaf
    if expr in (sympy.true, sympy.false):
        return Constant(int(expr == sympy.true))
    if isinstance(expr, sympy.Integer):
        number = int(expr)
        if not MINIMUM <= number <= MAXIMUM:
            raise _Unknown
        return Constant(number)
    if isinstance(expr, sympy.Float):
        return _constant(expr)
    parts = [part_of(part) for part in expr.args]
    real = any(part.real for part in parts)
    if kind in _FOLDED and parts:
        op = _FOLDED[kind]
        if real:
            op, parts = _between_floats(op, parts)
        return functools.reduce(lambda a, b: Binary(op, a, b), parts)
    if kind in _PAIRS and len(parts) == 2:
        op = _PAIRS[kind]
        if real:
            op, parts = _between_floats(op, parts)
        return Binary(op, *parts)
    if kind in _FROM_FLOAT:
        return Unary(_FROM_FLOAT[kind], _float(parts[0]))
    if kind in _FLOAT_PAIRS:
        return Binary(_FLOAT_PAIRS[kind], *map(_float, parts))
    if kind is functions.ToFloat:
        return _float(parts[0])
    if kind is functions.IntTrueDiv and not real:
        return Binary("TRUEDIV", *parts)
    if real:
        raise _Unknown
    if kind is sympy.Not:
        return Unary("NOT", parts[0])
    if kind is sympy.Abs:
        return Unary("ABS", parts[0])
    if kind is sympy.Pow or kind is functions.PowByNatural:
        power = expr.args[1]
        if isinstance(power, sympy.Integer) and 0 < int(power) <= _LARGEST_POWER:
            factors = [parts[0]] * int(power)
            return functools.reduce(lambda a, b: Binary("MUL", a, b), factors)
    raise _Unknown


def _constant(number: sympy.Float) -> Real:
    found = float(number)
    if not math.isfinite(found) or sympy.Float(found) != number:
        raise _Unknown
    return Real(found)


def _float(part: Expr) -> Expr:
    return part if part.real else Unary("TOFLOAT", part)


def _between_floats(op: str, parts: list[Expr]) -> tuple[str, list[Expr]]:
    found = _OF_FLOATS.get(op)
    if found is None or (found in _REORDERED and len(parts) > 2):
        raise _Unknown
    return found, list(map(_float, parts))
