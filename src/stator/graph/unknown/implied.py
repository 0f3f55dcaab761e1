"""Which of the conditions on symbols are needed: the others follow from them.

In: conditions, the first of which only tell in which range a symbol is; they are all true of the
call that was recorded. Out: the positions of those that say something new. Where a line of the
program says the same as a range, or more, the line is kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from stator.graph.unknown.environment import is_longer

_LESS = (sympy.StrictLessThan, sympy.LessThan)
_MORE = (sympy.StrictGreaterThan, sympy.GreaterThan)
_BOUND = 12  # symbols, numbers and operators of `2 * s + 3 <= 5`, and some more
_STRICT = (sympy.StrictLessThan, sympy.StrictGreaterThan)


class _Bound(NamedTuple):
    """A symbol is not less (or not more) than a number, or is another number."""

    symbol: sympy.Symbol
    kind: str
    number: int


def needed(conditions: Sequence[sympy.Basic], ranges: int) -> list[int]:
    """Of conditions, the first `ranges` of which are ranges, the positions of those to check."""
    same = _representatives(conditions[ranges:])
    plain = list(conditions)
    if same:
        plain = [each if isinstance(each, sympy.Eq) else each.xreplace(same) for each in plain]
    fixed = {same.get(s, s): n for each in plain[ranges:] for s, n in _equal(each)}
    bounds = [_bound(condition) for condition in plain]
    least: dict[tuple[sympy.Symbol, str], int] = {}  # position of what says the most
    for index in (*range(ranges, len(conditions)), *range(ranges)):
        found = bounds[index]
        if found is None or found.kind == "!=":
            continue
        key = found.symbol, found.kind
        known = bounds[least[key]] if key in least else None
        if known is None or _more(found, known):
            least[key] = index
    kept = []
    for index, condition in enumerate(plain):
        found = bounds[index]
        is_fixed = bool(fixed) and not fixed.keys().isdisjoint(condition.free_symbols)
        if is_fixed and not _equal(condition):
            if condition.xreplace(fixed) == sympy.true:
                continue
        elif found is not None and found.kind == "!=":
            lower, upper = (least.get((found.symbol, kind)) for kind in (">=", "<="))
            if lower is not None and found.number < _number(bounds[lower]):
                continue
            if upper is not None and found.number > _number(bounds[upper]):
                continue
        elif found is not None and index != least[found.symbol, found.kind]:
            best = bounds[least[found.symbol, found.kind]]
            # A range may say more than the lines do, if it follows from several.
            if index < ranges or best is None or least[found.symbol, found.kind] >= ranges:
                continue
        kept.append(index)
    return kept


def _more(found: _Bound, known: _Bound) -> bool:
    if found.kind == ">=":
        return found.number > known.number
    return found.number < known.number


def _number(bound: _Bound | None) -> int:
    assert bound is not None
    return bound.number


def _representatives(conditions: Sequence[sympy.Basic]) -> dict[sympy.Symbol, sympy.Symbol]:
    """One symbol for all that must be equal to it: `a == b` is checked anyway."""
    found: dict[sympy.Symbol, sympy.Symbol] = {}
    for condition in conditions:
        if isinstance(condition, sympy.Eq):
            one, other = (found.get(side, side) for side in condition.args)
            if one != other and isinstance(one, sympy.Symbol) and isinstance(other, sympy.Symbol):
                found[other] = one
                found.update({key: one for key, value in found.items() if value == other})
    return found


def _equal(condition: sympy.Basic) -> list[tuple[sympy.Symbol, sympy.Integer]]:
    """Of `s == 4`: which symbol, and which number."""
    if isinstance(condition, sympy.Eq):
        left, right = condition.args
        for one, other in ((left, right), (right, left)):
            if isinstance(one, sympy.Symbol) and isinstance(other, sympy.Integer):
                return [(one, other)]
    return []


def _bound(condition: sympy.Basic) -> _Bound | None:
    """What a condition says of its only symbol, if that is a bound."""
    if not isinstance(condition, (*_LESS, *_MORE, sympy.Ne)) or is_longer(condition, _BOUND):
        return None
    if len(condition.free_symbols) != 1:
        return None
    (symbol,) = condition.free_symbols
    difference = condition.args[0] - condition.args[1]
    factor = difference.coeff(symbol, 1)
    rest = difference - factor * symbol
    if not isinstance(factor, sympy.Integer) or not isinstance(rest, sympy.Integer) or not factor:
        return None
    a, b = int(factor), int(rest)
    if isinstance(condition, sympy.Ne):
        return _Bound(symbol, "!=", -b // a) if b % a == 0 else None
    if isinstance(condition, _LESS):
        a, b = -a, -b
    b -= isinstance(condition, _STRICT)
    # Now it says that a * symbol + b >= 0.
    return _Bound(symbol, ">=", -(b // a)) if a > 0 else _Bound(symbol, "<=", b // -a)
