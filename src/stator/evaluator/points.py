"""A program in the middle of a call: frames as data, and frames from data.

Stage: where a traced program is split. In: the innermost of the evaluator's frames, before its next
instruction. Out: `Activation`s, what the frames hold; `Point`s, where they stand, without what they
hold. A point says everything that code made for it may rely on; the values are its arguments:

    for each point, the outermost first: the values of `locals`, then of the stack's VALUE,
    ITERATOR and HANDLED slots, from the bottom
    for each ITERATOR slot: what the iterator gives next

A caller waits behind its call: the result is pushed on its stack when the next frame returns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.objects import TypeSet

_GENERATORS: Final = 0x20 | 0x80 | 0x100 | 0x200


def is_suspendable(code: CodeType) -> bool:
    """Whether frames of this code can be taken apart: those of generators belong to CPython."""
    return not code.co_flags & _GENERATORS


class Saved:
    """On the evaluator's stack: the exception that was handled before PUSH_EXC_INFO, or None."""

    __slots__ = ("exception",)

    def __init__(self, exception: BaseException | None) -> None:
        self.exception = exception


Lasti: TypeAlias = core.Number
"""On the evaluator's stack: the unit that raised the exception being handled."""


class Slot(Enum):
    """What is in a slot of the value stack."""

    VALUE = "value"
    ITERATOR = "iterator"
    """A value that can tell what it gives next: that is an argument, too."""
    NULL = "null"
    HANDLED = "handled"
    """PUSH_EXC_INFO saved the previous exception here; given is the one handled at this level."""


Kind: TypeAlias = Slot | int
"""An int is a `Lasti`: it is part of the point."""


class UnsplittableError(Exception):
    """In the middle of what CPython does with an exception, frames can't be taken apart."""


class Handled(NamedTuple):
    """In an activation's stack: the exception that is handled at this level."""

    exception: BaseException


class Point(NamedTuple):
    """Where a frame goes on, and which values it needs for that."""

    code: CodeType
    globals: dict[str, Any]
    unit: int
    """The next instruction."""
    locals: tuple[int, ...]
    """The variables (in localsplus) that are bound; of cells, the cell itself is the value."""
    stack: tuple[Kind, ...]
    """From the bottom."""
    behind: int | None = None
    """An instruction that has run and is in a block that the next one is not in: it is left, at its
    handler, if the program can't go on."""

    @property
    def size(self) -> int:
        """How many values it takes."""
        return len((*self.locals, *(kind for kind in self.stack if kind in _GIVEN)))  # own: ours

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for points that are the same; code and globals count by identity."""
        return id(self.code), id(self.globals), self.unit, self.locals, self.stack, self.behind


_GIVEN: Final = (Slot.VALUE, Slot.ITERATOR, Slot.HANDLED)
_VALUES: Final = (Slot.VALUE, Slot.ITERATOR)
_ITERATORS: Final = TypeSet(
    type(iter([])),  # own: iterators of C, to know their types
    type(reversed([])),  # own: the same
    type(iter(())),  # own: the same
    type(iter(range(0))),  # own: the same
    type(iter({})),  # own: the same
    type(iter({}.values())),  # own: the same
    type(iter({}.items())),  # own: the same
    enumerate,
    zip,
)


def size_of(points: Iterable[Point]) -> int:
    """How many values the frames take."""
    return sum(point.size for point in points)


@dataclass
class Activation:
    """A frame, taken apart."""

    code: CodeType
    globals: dict[str, Any]
    unit: int
    """The next instruction; of a caller, the one behind its call."""
    locals: dict[int, Any]
    stack: list[Any]
    """From the bottom, with NULL, `Handled` and `Lasti`."""

    def point(self, live: Iterable[int], behind: int | None = None) -> Point:
        """Where it stands, with those of its variables that are still needed."""
        bound = tuple(index for index in sorted(live) if index in self.locals)  # own: ints
        stack = tuple(map(_kind, self.stack))
        return Point(self.code, self.globals, self.unit, bound, stack, behind)

    def values(self, point: Point) -> list[Any]:
        """The values that its point needs."""
        given = [self.locals[index] for index in point.locals]
        for value in self.stack:
            if type(value) is Handled:
                given.append(value.exception)
            elif _kind(value) in _VALUES:
                given.append(value)
        return given

    def iterators(self) -> list[Any]:
        """Those of its values that can tell what they give next."""
        return [value for value in self.stack if _kind(value) is Slot.ITERATOR]


def _kind(value: Any) -> Kind:
    if value is NULL:
        return Slot.NULL
    if type(value) is Handled:
        return Slot.HANDLED
    if _ITERATORS.holds(type(value)):
        return Slot.ITERATOR
    return int(value) if type(value) is Lasti else Slot.VALUE


def _first_free(code: CodeType) -> int:
    """Where free variables begin: behind cells, some of which are the slots of parameters."""
    return code.co_nlocals + sum(name not in code.co_varnames for name in code.co_cellvars)


def _value(frame: Frame, index: int) -> Any:
    return frame[index]


def activations(
    frame: Frame,
    base: CodeType | None = None,
    value: Callable[[Frame, int], Any] = _value,
) -> list[Activation]:
    """A frame and its callers, the outermost first, up to the frame of `base`, if given.

    `value` answers what a variable holds, NULL if nothing.
    """
    handled = core.get_handled_exception()
    frames = []
    step: Frame | None = frame
    while step is not None and step.code is not base:
        code = step.code
        stack = list(step.stack)
        for index in reversed(range(len(stack))):  # own: the evaluator's list
            saved = stack[index]
            if type(saved) is Saved:
                if handled is None:  # a copy of what was popped already
                    raise UnsplittableError
                stack[index] = Handled(handled)
                handled = saved.exception
        count = _first_free(code) + len(code.co_freevars)  # own: a tuple of names
        held = {index: value(step, index) for index in range(count)}
        variables = {index: found for index, found in held.items() if found is not NULL}
        frames.append(Activation(code, step.globals, int(step.ip), variables, stack))
        step = step.caller
    frames.reverse()
    return frames


def _put(frame: Frame, index: int, value: Any) -> None:
    frame[index] = value


def restore(
    caller: Frame,
    points: Sequence[Point],
    values: Sequence[Any],
    put: Callable[[Frame, int, Any], None] = _put,
) -> Frame:
    """Pushes the frames of some points behind a frame; answers the innermost.

    `put` gives a variable its value.
    """
    given = iter(values)  # own: a sequence of ours
    frame = caller
    for point in points:
        frame = _restored(frame, point, given, put)
    return frame


def _restored(
    caller: Frame, point: Point, given: Iterator[Any], put: Callable[[Frame, int, Any], None]
) -> Frame:
    code = point.code
    variables = [(index, next(given)) for index in point.locals]  # own: see restore
    cells = dict(variables)
    free = enumerate(code.co_freevars, _first_free(code))  # own: a tuple of names
    closure = tuple(cells.get(index, _EMPTY) for index, _ in free)
    function = FunctionType(code, point.globals, code.co_name, None, closure or None)
    frame = core.push(caller, function)
    for index, value in variables:
        put(frame, index, value)
    stack = frame.stack
    for kind in point.stack:
        if kind in _VALUES:
            stack.append(next(given))  # own: see restore
        elif kind is Slot.NULL:
            stack.append(NULL)
        elif kind is Slot.HANDLED:
            handled = next(given)  # own: see restore
            stack.append(Saved(core.swap_handled_exception(handled)))
        else:
            stack.append(Lasti(kind))
    frame.ip = point.unit
    return frame


_EMPTY: Final = CellType()
