"""Numbers that Python's own functions make of numbers which only the graph knows.

Stage: capture, for `Scalars`. In: a function of numbers, one of which is read from a tensor:
`math.exp(n)`, `round(n, 2)`, `n // 0.1`, `n & 7`. Out: a symbol for the result. The graph calls the
function itself (`graph.numbers`), so that the result is CPython's to the last bit.

Where the function has no result, or one that fits no symbol, the graph refuses, and the program
runs instead: exceptions, complex numbers and long integers are eager's.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.numbers.shapes import has_value
from stator.diagnostics.catalogue import ValueNeeded
from stator.graph.unknown.numbers import FUNCTIONS, KINDS, NUMBER
from stator.graph.unknown.scalars import symbol_of
from stator.objects import TypeSet
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.numbers.scalars import Scalars

_PYTHON: Final[Mapping[type, type]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
    int: int,
    float: float,
    bool: bool,
}
NUMBERS: Final = TypeSet(*_PYTHON)
_CPU: Final = torch.device("cpu")
_LARGEST: Final = 1 << 63

# Functions of `math` by the kind of their result.
_FLOATS: Final = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 "
    "fabs fmod fsum gamma hypot ldexp lgamma log log10 log1p log2 nextafter pow radians remainder "
    "sin sinh tan tanh ulp"
)
_INTS: Final = "comb factorial gcd isqrt lcm perm"
_BOOLS: Final = "isclose"
OF_MATH: Final[Mapping[str, str]] = {
    name: kind
    for names, kind in ((_FLOATS, "float"), (_INTS, "int"), (_BOOLS, "bool"))
    for name in names.split()
    if hasattr(math, name)
}
# These answer for all numbers.
_TOTAL: Final = frozenset(
    f"math.{name}"
    for name in [
        "atan",
        "cbrt",
        "copysign",
        "degrees",
        "erf",
        "erfc",
        "fabs",
        "isclose",
        "radians",
        "tanh",
        "ulp",
    ]
) | {"float.is_integer", "int.bit_length", "int.bit_count"}
# Operators that symbols know nothing of.
OPERATORS: Final[Mapping[Any, str]] = {
    operator.and_: "and_",
    operator.floordiv: "floordiv",
    operator.invert: "invert",
    operator.lshift: "lshift",
    operator.mod: "mod",
    operator.or_: "or_",
    operator.pow: "pow",
    operator.rshift: "rshift",
    operator.xor: "xor",
}
_LOGIC: Final = frozenset({"and_", "or_", "xor"})
_OF_FLOATS: Final = frozenset({"floordiv", "mod", "pow"})


class Computed:
    """Functions of the numbers of one trace."""

    def __init__(self, scalars: "Scalars") -> None:
        self._scalars = scalars
        self._tensors = scalars.tensors

    def concerns(self, values: Sequence[Any]) -> bool:
        """Whether all are numbers, one of which only the graph knows."""
        found = False
        floats = self._tensors.shapes.floats
        for value in values:
            if not NUMBERS.holds(type(value)):
                return False
            found = found or not (has_value(value) or floats.knows(value))
        return found

    def operate(self, frame: Frame | None, function: Any, operands: Sequence[Any]) -> Any:
        """An operator; MISSING if it is none of these, or raises for such operands."""
        name = OPERATORS.get(function)
        if name is None or not self.concerns(operands):
            return MISSING
        kinds = [_PYTHON[type(value)] for value in operands]
        kind = "float" if float in kinds else "int"
        if kind == "float" and name not in _OF_FLOATS:
            return MISSING  # a TypeError
        if name in _LOGIC and all(each is bool for each in kinds):
            kind = "bool"
        if name == "pow" and kind == "int" and type(operands[1]) is int and operands[1] < 0:
            kind = "float"
        return self.call(frame, name, kind, operands)

    def call(self, frame: Frame | None, name: str, kind: str, operands: Sequence[Any]) -> Any:
        """The number that a function makes, which is of this kind."""
        assert name in FUNCTIONS, name
        scalars, doubles = self._scalars, self._scalars.doubles
        given = [self._operand(frame, value) for value in operands]
        value, made = doubles.record(frame, NUMBER, name, kind, given)
        if name not in _TOTAL:
            scalars.require(doubles.item(frame, made), f"{name} has no result of this kind")
        return doubles.number(frame, value) if kind == "float" else doubles.item(frame, value)

    def _operand(self, frame: Frame | None, value: Any) -> torch.Tensor:
        kind = type(value)
        if kind is torch.SymFloat:
            return self._scalars.doubles.of(frame, value)
        if kind is torch.SymBool:
            if symbol_of(value) is None:
                raise ValueNeeded("a condition on numbers from tensors is used as a number")
            bit = self._scalars.to_int(frame, value)
            as_int = self._scalar(frame, bit, KINDS["int"])
            doubles = self._scalars.doubles
            made: torch.Tensor = doubles.record(frame, ("method", "to"), as_int, torch.bool)
            return made
        if kind is int and not -_LARGEST <= value < _LARGEST:
            raise ValueNeeded("an operator between a number from a tensor and a long integer")
        return self._scalar(frame, value, KINDS[_PYTHON[kind].__name__])

    def _scalar(self, frame: Frame | None, value: Any, dtype: torch.dtype) -> torch.Tensor:
        options = {"dtype": dtype, "device": _CPU}
        doubles = self._scalars.doubles
        made: torch.Tensor = doubles.record(frame, torch.scalar_tensor, value, **options)
        return made


def python_kind(value: Any) -> type:
    """int, float or bool, of a number or a symbol."""
    return _PYTHON[type(value)]
