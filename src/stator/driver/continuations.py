"""Compiled continuations: what runs behind an instruction that could not be captured.

Stage: driver. In: the points of a suspension. Out: a compiled function of the values they need,
which captures the rest of the program when it is first called. The same points always give the same
one, so a call that is split compiles nothing new when it is made again. They live with the ledger
of the function that was split, and share its limit of how many there may be.
"""

import keyword
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from stator._native._core import CompiledFunction
from stator.bytecode import decode
from stator.capture.trace.budget import Splits
from stator.capture.trace.task import Trust
from stator.emit.forward import forward
from stator.emit.resume import resume
from stator.evaluator.points import Point, Slot, size_of

LIMIT: Final = 1000

Make = Callable[[FunctionType, tuple[Point, ...]], CompiledFunction]


class Continuations:
    """Those of one function."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], CompiledFunction] = {}
        self.varied: set[object] = set()
        """Instructions at which something that was taken for granted turned out otherwise."""
        self.splits: Splits = {}  # loops that took too long to unroll
        self.inlined: set[CodeType] = set()  # functions that are no regions, though they are to be
        self.apart = False  # whether the backend has failed on sizes that depend on values

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[CompiledFunction]:
        return list(self._known.values())

    def clear(self) -> None:
        self._known.clear()
        self.varied.clear()
        self.splits.clear()
        self.inlined.clear()
        self.apart = False

    def at(
        self, points: tuple[Point, ...], make: Make, *, trust: Trust = Trust.SEEN
    ) -> CompiledFunction:
        """The continuation at some points; `make` compiles the function it is given.

        What takes less for granted goes on so.
        """
        key = trust, *(point.key for point in points)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(native(points), points)
        return found


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
