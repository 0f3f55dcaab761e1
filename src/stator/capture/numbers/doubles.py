"""Floats that only the graph knows: it computes with them, on tensors of float64.

Stage: capture, for `Scalars`. In: an operation on floats that are read from tensors, or follow from
such. Out: a symbol for the result, bound to a node of the graph. Torch would reorder sums of its
own symbols, and take `f == f` for true, which nan is not.
"""

import math
import operator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import user_call
from stator.capture.numbers.shapes import has_value
from stator.diagnostics.catalogue import ValueNeeded
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.numbers.scalars import Scalars

COMPARE: Final[dict[Any, Any]] = {
    operator.lt: torch.lt,
    operator.le: torch.le,
    operator.eq: torch.eq,
    operator.ne: torch.ne,
    operator.gt: torch.gt,
    operator.ge: torch.ge,
}
_FLOAT: Final[dict[Any, Any]] = {
    **COMPARE,
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.truediv: torch.div,
    operator.neg: torch.neg,
    operator.pos: torch.clone,
    operator.abs: torch.abs,
}
PLAIN: Final = TypeSet(int, float, bool)
_EXACT: Final = 1 << 53  # as far as float64 tells integers apart
_CPU: Final = torch.device("cpu")
WIDE: Final = 8  # numbers of which torch writes the greatest as an expression


class Doubles:
    """The floats of one trace that are in tensors."""

    def __init__(self, scalars: "Scalars") -> None:
        self._scalars = scalars
        self._tensors = scalars.tensors
        self._doubles: dict[Any, torch.Tensor] = {}  # by the symbol of the float

    def of(self, frame: Frame | None, value: Any) -> torch.Tensor:
        """A number as a tensor of float64, in which the graph computes."""
        symbol = value.node.expr if type(value) is torch.SymFloat else None
        if symbol is not None and symbol in self._doubles:
            return self._doubles[symbol]
        if type(value) is torch.SymBool:
            value = self._scalars.to_int(frame, value)
        if type(value) is torch.SymInt:
            for inside in self._scalars.known(lambda: (value <= _EXACT, value >= -_EXACT)):
                self._scalars.require(inside, "an integer is too large for a float")
        elif type(value) is int:
            value = float(value)
        options = {"dtype": torch.float64, "device": _CPU}
        made: torch.Tensor = self.record(frame, torch.scalar_tensor, value, **options)
        if symbol is not None:
            self._doubles[symbol] = made
        return made

    def number(self, frame: Frame | None, double: torch.Tensor) -> Any:
        """The number in a tensor of float64."""
        number = self.item(frame, double)
        if type(number) is torch.SymFloat:
            self._doubles[number.node.expr] = double
        return number

    def item(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """The number, or the bool, in a tensor that was recorded here."""
        with self._tensors.graph.outside_of_regions():
            return self._scalars.item(frame, tensor)

    def record(self, frame: Frame | None, function: Any, *args: Any, **options: Any) -> Any:
        """An operation of the graph on such tensors: they are none of a region's."""
        with self._tensors.graph.outside_of_regions():
            return self._tensors.record(frame, function, args, options or None)

    def operate(self, frame: Frame | None, function: Any, operands: tuple[Any, ...]) -> Any:
        """An operator between numbers, one of which is such a float or becomes one."""
        target = _FLOAT.get(function)
        if target is None:
            found = self._scalars.computed.operate(frame, function, operands)
            if found is not MISSING:
                return found
            floats = self._tensors.shapes.floats
            known = [floats.fixed(value) for value in operands]
            if all(PLAIN.holds(type(value)) for value in known):
                return user_call(function, *known)
            name = getattr(function, "__name__", "?")
            raise ValueNeeded(f"the operator {name} on a float that is read from a tensor")
        result = self.record(frame, target, *(self.of(frame, each) for each in operands))
        compared = function in COMPARE
        number = self.item(frame, result) if compared else self.number(frame, result)
        self._tensors.shapes.floats.define(number, function, operands)
        return number

    def extreme(
        self,
        frame: Frame | None,
        compare: Any,
        choose: Any,
        found: Any,
        value: Any,
        *,
        many: bool = False,
    ) -> Any:
        """The greater (smaller) of two numbers: the first, unless the second is `compare` to it."""
        kinds = {type(found), type(value)}
        if kinds <= {int, torch.SymInt}:
            if (many or _is_wide(found)) and has_value(found) and has_value(value):
                # Of many, torch compares each with each whenever there is one more.
                return value if self._scalars.operate(frame, compare, value, found) else found
            return self._scalars.known(lambda: choose(found, value))
        if has_value(found) and has_value(value):
            return self._extreme(frame, compare, found, value, kinds)
        if not kinds <= {float, torch.SymFloat}:  # of which type the answer is depends on it, too
            greater = self._scalars.operate(frame, compare, value, found)
            return value if self._scalars.truth(frame, greater) else found
        first, second = self.of(frame, found), self.of(frame, value)
        second_wins = self.record(frame, COMPARE[compare], second, first)
        return self.number(frame, self.record(frame, torch.where, second_wins, second, first))

    def _extreme(
        self, frame: Frame | None, compare: Any, found: Any, value: Any, kinds: set[type]
    ) -> Any:
        """The same of numbers that follow from sizes."""
        if kinds <= {float, torch.SymFloat}:
            op = "FMAX" if compare is operator.gt else "FMIN"
            real = self._tensors.shapes.reals.extreme(op, found, value)
            if real is not MISSING:
                return real
        return value if self._scalars.operate(frame, compare, value, found) else found

    def sqrt(self, frame: Frame | None, value: Any) -> Any:
        """`math.sqrt`."""
        value = self._read(frame, value)
        if has_value(value):
            return self._scalars.of_value(frame, "FSQRT", math.sqrt, value)
        return self._compute(frame, torch.sqrt, value, 0.0)

    def log2(self, frame: Frame, value: Any) -> Any:
        """`math.log2`, of what follows from sizes; MISSING for other numbers."""
        if type(value) is FakeTensor or not has_value(value):
            return MISSING
        return self._scalars.of_value(frame, "FLOG2", math.log2, value)

    def _read(self, frame: Frame | None, value: Any) -> Any:
        return self._scalars.item(frame, value) if type(value) is FakeTensor else value

    def _compute(self, frame: Frame | None, function: Any, value: Any, least: float) -> Any:
        """A function of a float that is no less than a bound."""
        value = self._scalars.to_float(frame, value)
        why = f"{function.__name__} of a number that is out of range"
        self._scalars.require(self._scalars.operate(frame, operator.ge, value, least), why)
        return self.number(frame, self.record(frame, function, self.of(frame, value)))

    def test(self, frame: Frame, function: Any, value: Any) -> Any:
        """`math.isnan` and the like."""
        value = self._read(frame, value)
        if has_value(value):
            return function is torch.isfinite
        double = self.of(frame, self._scalars.to_float(frame, value))
        return self.item(frame, self.record(frame, function, double))


def _is_wide(number: Any) -> bool:
    """Whether it is the greatest or smallest of many."""
    return type(number) is torch.SymInt and len(number.node.expr.args) > WIDE
