"""The rest of a program as a function of the values that it still needs.

Stage: emit, around `resume` and `forward`. In: points. Out: a plain function, whose parameters have
the names of the program's variables where they can.
"""

import keyword
from collections.abc import Sequence
from types import FunctionType

from stator.bytecode import decode
from stator.emit.forward import forward
from stator.emit.resume import resume
from stator.evaluator.points import Point, Slot, size_of


def native(points: Sequence[Point]) -> FunctionType:
    """The rest of the program as a plain function of the values that the points need.

    No traceback shows it: it has no RESUME, so for CPython its frame has not begun.
    """
    first = points[0].code
    names = _names(points)
    return forward(resume(points, first.co_name), names, first, len(names) - size_of(points))


def _names(points: Sequence[Point]) -> list[str]:
    """Parameters: the user's names where they can be."""
    names: list[str] = []
    for point in points:
        variables = decode(point.code).localsplus
        wanted = [variables[index] for index in point.locals]
        wanted += ["stack"] * (point.size - len(point.locals))
        for name in wanted:
            _add(names, name)
    for point in points:
        for kind in point.stack:
            if kind is Slot.ITERATOR:
                _add(names, "ahead")
    return names


def _add(names: list[str], name: str) -> None:
    """A parameter of its own."""
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        name = "local"
    unique, number = name, 1
    while unique in names:
        number += 1
        unique = f"{name}_{number}"
    names.append(unique)
