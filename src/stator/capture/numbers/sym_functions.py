"""torch's functions for symbolic numbers (`torch.sym_max`), on numbers that are read from tensors.

Stage: capture, for `Scalars`. In: their calls. Out: what they answer for Python's own numbers, for
that is what they get in eager; MISSING where torch's own symbols do the same: ints, and sizes.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.numbers.computed import NUMBERS, python_kind
from stator.capture.numbers.shapes import has_value
from stator.capture.numbers.speculation import negated
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.numbers.scalars import Scalars

_OF_MATH: Final = (
    *("acos", "asin", "atan", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("exp", "exp2", "log", "log10", "log2"),
)
_INTS: Final = frozenset({int, torch.SymInt})


def _are_plain(values: Any) -> bool:
    """Whether torch's symbols are right: all are ints, or have a value."""
    return all(map(has_value, values)) or {type(value) for value in values} <= _INTS


def _extreme(compare: Any, choose: Any) -> Callable[..., Any]:
    def answer(scalars: "Scalars", frame: Frame | None, a: Any, b: Any) -> Any:
        if _are_plain((a, b)) or not scalars.computed.concerns((a, b)):
            return MISSING
        if float in (python_kind(a), python_kind(b)):
            a, b = (scalars.to_float(frame, each) for each in (a, b))
        return scalars.doubles.extreme(frame, compare, choose, a, b)

    return answer


def _sqrt(scalars: "Scalars", frame: Frame | None, value: Any) -> Any:
    return MISSING if has_value(value) else scalars.doubles.sqrt(frame, value)


def _of_math(name: str) -> Callable[..., Any]:
    def answer(scalars: "Scalars", frame: Frame | None, value: Any) -> Any:
        if not scalars.computed.concerns((value,)):
            return MISSING
        return scalars.computed.call(frame, f"math.{name}", "float", (value,))

    return answer


def _sum(scalars: "Scalars", frame: Frame | None, *given: Any) -> Any:
    values = given[0] if len(given) == 1 and type(given[0]) in (list, tuple) else given
    if _are_plain(values) or not scalars.computed.concerns(values):
        return MISSING
    if torch.SymFloat in map(type, values):
        return scalars.computed.call(frame, "sum", "float", values)
    found: Any = 0
    for value in values:
        found = scalars.operate(frame, operator.add, found, value)
    return found


def _not(scalars: "Scalars", frame: Frame | None, value: Any) -> Any:
    if has_value(value) or type(value) is torch.SymBool:
        return MISSING
    return negated(scalars.condition(frame, value))


def _choice(scalars: "Scalars", frame: Frame | None, condition: Any, yes: Any, no: Any) -> Any:
    if type(condition) is not torch.SymBool or _are_plain((yes, no)):
        return MISSING
    if not (NUMBERS.holds(type(yes)) and NUMBERS.holds(type(no))):
        return MISSING
    if python_kind(yes) is not python_kind(no):
        return MISSING  # torch refuses
    return yes if scalars.truth(frame, condition) else no


SYM_FUNCTIONS: Final[Mapping[int, Callable[..., Any]]] = {
    id(torch.sym_max): _extreme(operator.gt, torch.sym_max),
    id(torch.sym_min): _extreme(operator.lt, torch.sym_min),
    id(torch.sym_sum): _sum,
    id(torch.sym_not): _not,
    id(torch.sym_ite): _choice,
    id(torch.sym_sqrt): _sqrt,  # type: ignore[attr-defined, unused-ignore]
    **{
        id(getattr(torch, f"_sym_{name}")): _of_math(name)
        for name in _OF_MATH
        if hasattr(torch, f"_sym_{name}") and hasattr(math, name)
    },
}
