"""From torch's symbolic conditions to native ones.

Stage: guards, with torch's symbols. In: a sympy expression over symbols that stand for sizes and
ints, and where each symbol is read. Out: the same over these places, for the native tree; None if
it says something that the tree can't compute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch.utils._sympy import functions

from .expressions import MAXIMUM, MINIMUM, Binary, Constant, Expr, Leaf, Unary

_DEEPEST: Final = 48  # values on the native stack, which has room for 64
_LARGEST_POWER: Final = 8

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


class _Unknown(Exception):  # noqa: N818 - an answer, not an error
    """The native tree can't compute this."""


def translated(expr: sympy.Basic, place: Callable[[Any], Leaf | None]) -> Expr | None:
    """A condition or number as the native tree computes it; `place` is where a symbol is read."""
    try:
        made = _translated(expr, place)
    except _Unknown:
        return None
    return made if _depth(made) <= _DEEPEST else None


def _translated(expr: sympy.Basic, place: Callable[[Any], Leaf | None]) -> Expr:
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
    parts = [_translated(part, place) for part in expr.args]
    if kind in _FOLDED and parts:
        return functools.reduce(lambda a, b: Binary(_FOLDED[kind], a, b), parts)
    if kind in _PAIRS and len(parts) == 2:
        return Binary(_PAIRS[kind], *parts)
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


def _depth(expr: Expr) -> int:
    """How many values its evaluation keeps at once."""
    match expr:
        case Binary():
            return max(_depth(expr.left), 1 + _depth(expr.right))
        case Unary():
            return _depth(expr.operand)
    return 1
