"""What messages call a compiled function.

Stage: driver. In: a function, or where one goes on behind a break. Out: a `Label`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType

from stator.bytecode import decode
from stator.evaluator.points import Point


@dataclass(frozen=True)
class Label:
    """What messages call a compiled function."""

    name: str
    file: str
    line: int
    units: tuple[int, ...] = ()
    """Of a continuation: the instructions at which it begins. Several may begin in one line."""
    explained: int = 0
    """Which explanation it is for: each tells of its own calls alone. 0 for none."""

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"

    @property
    def function(self) -> str:
        """As for places in a program."""
        return self.name

    def behind(self, points: Sequence[Point]) -> "Label":
        """Of the continuation at some points."""
        last = points[-1]
        code = last.code
        line = decode(code).line_of(last.unit) or code.co_firstlineno
        name = self.name.partition(", resumed")[0]
        units = tuple(point.unit for point in points)
        title = f"{name}, resumed in {code.co_qualname}"
        return Label(title, code.co_filename, line, units, self.explained)

    @classmethod
    def of(cls, function: FunctionType, name: str | None = None) -> "Label":
        code = _written(function).__code__
        return cls(name or function.__qualname__, code.co_filename, code.co_firstlineno)


def _written(function: FunctionType) -> FunctionType:
    """The function that a user has written, where a decorator has put another around it."""
    seen = {id(function)}
    while type(inner := function.__dict__.get("__wrapped__")) is FunctionType:
        if id(inner) in seen:
            break
        seen.add(id(inner))
        function = inner
    return function
