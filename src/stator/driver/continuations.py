"""Compiled continuations: what runs behind an instruction that could not be captured.

Stage: driver. In: the points of a suspension. Out: a compiled function of the values they need,
which captures the rest of the program when it is first called. The same points always give the same
one, so a call that is split compiles nothing new when it is made again. They live with the ledger
of the function that was split, and share its limit of how many there may be.
"""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from stator._native._core import CompiledFunction
from stator.capture.trace.budget import Splits
from stator.capture.trace.task import Trust
from stator.emit.continuation import native
from stator.evaluator.points import Point

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

    def put(self, points: tuple[Point, ...], known: CompiledFunction) -> None:
        """What is at some points, made before the compiler was loaded."""
        self._known.setdefault((Trust.SEEN, *(point.key for point in points)), known)

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
