"""Generators that are given up half-way: CPython closes them, which runs their `finally` blocks.

In: generators and coroutines made in the trace. Out: each is closed in the trace as soon as nothing
refers to it any more. So they are held here: one that CPython frees between two instructions would
run its code for real. The tracer asks before each operation that can be seen from outside.
"""

import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stator._native import _core as core
from stator._native._core import Frame
from stator.bytecode.exception_table import parse_exception_table
from stator.capture.iterators.outlived_generators import given_up_later
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import IteratorInUse
from stator.objects import TypeSet

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

GENERATORS: Final = TypeSet(types.GeneratorType, types.CoroutineType)

_suspended: Final[dict[int, Any]] = {
    id(types.GeneratorType): types.GeneratorType.__dict__["gi_suspended"].__get__,
    id(types.CoroutineType): types.CoroutineType.__dict__["cr_suspended"].__get__,
}

_code: Final[dict[int, Any]] = {
    id(types.GeneratorType): types.GeneratorType.__dict__["gi_code"].__get__,
    id(types.CoroutineType): types.CoroutineType.__dict__["cr_code"].__get__,
}


def _nothing() -> Any:
    yield


_HANDLERS: Final = len(parse_exception_table(_nothing.__code__.co_exceptiontable))


def cleans_up(code: types.CodeType) -> bool:
    """Whether a generator handles exceptions: newer compilers add a handler to each of them."""
    return len(parse_exception_table(code.co_exceptiontable)) > _HANDLERS


def _references(held: list[Any] | dict[int, Any], index: int) -> int:
    return sys.getrefcount(held[index])


_ALONE: Final = _references([object()], 0)  # of what is in one container, and nowhere else


class Abandoned:
    """The generators of one trace that may have to be closed."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self.held: list[Any] = []

    def settle(self, frame: Frame | None) -> None:
        """Closes those that nothing refers to; one may have been the last to refer to another.

        Without a frame when the program has returned.
        """
        while True:
            self._close_unheld(frame)
            if not self.held or not self._drop_functions():
                break

    def _close_unheld(self, frame: Frame | None) -> None:
        held, index = self.held, 0
        while index < len(held):
            if _references(held, index) > _ALONE:
                index += 1
                continue
            generator = held.pop(index)
            if _suspended[id(type(generator))](generator):
                self._close(frame, generator)
                index = 0

    def _drop_functions(self) -> bool:
        """Lets go of functions that only the trace holds: one may be what holds a generator."""
        calls = self._tracer.calls
        gone = [key for key in calls.made if _references(calls.made, key) <= _ALONE]
        gone = [key for key in gone if key not in calls.stand_ins]
        for key in gone:
            del calls.made[key]
        return bool(gone)

    def pending(self) -> int | None:
        """The step that made a generator which would do something if it was closed now, if any.

        It may be in a variable that is not needed any more: then nobody else would close it.
        """
        for generator in self._cleaning():
            return self._tracer.calls.made_at.get(id(generator))
        return None

    def outlive(self, frame: Frame) -> bool:
        """Whether the program may give up such a generator after the trace has ended here."""
        cleaning = list(self._cleaning())
        if not cleaning:
            return False
        records = list(self._tracer.world.records.values())
        return given_up_later(frame, cleaning, [each.shadow for each in records])

    def _cleaning(self) -> Iterator[Any]:
        for generator in self.held:
            kind = id(type(generator))
            if _suspended[kind](generator) and cleans_up(_code[kind](generator)):
                yield generator

    def _close(self, frame: Frame | None, generator: Any) -> None:
        tracer = self._tracer
        made = tracer.calls.made_at.get(id(generator))
        try:
            if frame is None:
                tracer.run_late(_close, generator)
            else:
                core.call(frame, generator.close, [], None)
        except BaseException as error:
            tracer.hold(generator)
            tracer.before = made
            if isinstance(error, Break) or not core.is_user_error(error):
                raise
            raise IteratorInUse("a generator raises when it is given up") from None


def _close(generator: Any) -> None:
    generator.close()
