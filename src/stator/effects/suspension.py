"""A trace that ends in the middle: what runs natively then, and where the program goes on.

Stage: effects. In: the activations of the program before the instruction that can't be captured.
Out: a `Suspension`, over numbered values of the trace that the plan makes like others.

    residual function:  graph, effects, values ─► the step, in the user's frames
                          ├─ it has a result (or: true)   ─► continuation `way`
                          ├─ false, or nothing to iterate ─► continuation `other`
                          └─ an exception is caught       ─► continuation `caught`

A continuation is known by its points (`evaluator.points`); its arguments are values of the trace,
results of the step (`Result`), or the exception (`CAUGHT`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CoroutineType, GeneratorType
from typing import Any, Final, NamedTuple, TypeAlias

from stator._native._core import NULL
from stator.bytecode import TABLES, Decoded, Instruction, decode
from stator.bytecode.arguments import constant, resolve
from stator.bytecode.liveness import live
from stator.effects.exits import Entry, entry
from stator.effects.instruction import Result, Step, Way, step
from stator.evaluator.points import Activation, Handled, Lasti, Point


class Caught:
    """The exception that a handler of the program catches."""


CAUGHT: Final = Caught()


class Upcoming(NamedTuple):
    """What an iterator gives next, which is a value of the trace."""

    number: int


Argument: TypeAlias = int | Result | Caught | Upcoming
"""An int is the number of a value of the trace."""


@dataclass(frozen=True)
class Exit:
    """One way on: a continuation and its arguments; without points, the argument is returned."""

    points: tuple[Point, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Suspension:
    """Where a trace ends, and how the program goes on."""

    values: tuple[Any, ...]
    """What is still needed, each object once."""
    step: Step
    operands: tuple[int | None, ...]
    """The step's operands among the values; None for NULL."""
    places: tuple[Entry, ...]
    """The user's frames at this moment, the outermost first."""
    namespaces: tuple[dict[str, Any], ...]
    """Their globals."""
    handled: int | None
    """The exception that the program is handling, among the values."""
    way: Exit
    other: Exit | None
    caught: Exit | None
    catcher: int
    """Which of the frames has the handler, if there is one."""


def suspension(frames: Sequence[Activation]) -> Suspension | None:
    """How to go on behind the next instruction of the last frame; None: that can't be done."""
    if not frames:  # nothing of the program has begun
        return None
    innermost = frames[-1]
    found = step(innermost)
    if found is None:
        return None
    numbers = _Numbers()
    callers = frames[:-1]
    unit = _current(innermost, innermost=True)
    handled = None
    for frame in frames if found.text else ():
        for value in frame.stack:
            if type(value) is Handled:
                handled = numbers.of(value.exception)
    if found.raises:
        way = Exit((), (numbers.of(None),))
    else:
        way = _exit(numbers, callers, innermost, found.way, unit)
    other = None
    if found.other is not None:
        other = _exit(numbers, callers, innermost, found.other, unit)
    caught, catcher = None, -1
    for index in reversed(range(len(frames) if found.text else 0)):
        frame = frames[index]
        unit = _current(frame, frame is innermost)
        handler = decode(frame.code).handler_for(unit)
        if handler is not None:
            stack = list(frame.stack[: handler.depth])
            if handler.lasti:
                stack.append(Lasti(unit))
            target = Way(handler.target, (*stack, CAUGHT))
            caught, catcher = _exit(numbers, frames[:index], frame, target, unit), index
            break
    operands = tuple(None if value is NULL else numbers.of(value) for value in found.operands)
    places = tuple(_place(frame, frame is innermost) for frame in frames)
    namespaces = tuple(frame.globals for frame in frames)
    return Suspension(
        tuple(numbers.values),
        found,
        operands,
        places,
        namespaces,
        handled,
        way,
        other,
        caught,
        catcher,
    )


class _Numbers:
    """Values of the trace, each object once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[int, int] = {}

    def of(self, value: Any) -> int:
        if id(value) not in self._known:
            self._known[id(value)] = len(self.values)
            self.values.append(value)
        return self._known[id(value)]

    def argument(self, value: Any) -> Argument:
        if type(value) is Result or type(value) is Caught:
            return value
        return self.of(value)


def _exit(
    numbers: _Numbers, callers: Sequence[Activation], innermost: Activation, way: Way, run: int
) -> Exit:
    """A way to go on behind an instruction of the innermost frame, which has run then."""
    frames = [*callers, _on(_moved(innermost, way.unit, way.stack))]
    while (result := _returned(frames[-1])) is not NULL:
        frames.pop()
        if not frames:
            return Exit((), (numbers.argument(result),))
        caller = frames[-1]
        run = _current(caller, innermost=False)
        frames[-1] = _on(_moved(caller, caller.unit, (*caller.stack, result)))
    points: list[Point] = []
    arguments: list[Argument] = []
    for frame in frames:
        last = frame is frames[-1]
        point = frame.point(_needed(frame, last, run), _behind(frame, run) if last else None)
        points.append(point)
        arguments += map(numbers.argument, frame.values(point))
    for frame in frames:
        arguments += [Upcoming(numbers.of(each)) for each in frame.iterators()]
    return Exit(tuple(points), tuple(arguments))


def _behind(frame: Activation, run: int) -> int | None:
    """The unit of the instruction that has run, if its block ends behind it.

    What `try … finally` does at the end of the block is code behind the block; so is the call of
    `__exit__`, and so are handlers. Left there, the program would do neither. But where a block
    begins behind the instruction, as behind the one that enters a `with` block, that one is left.
    """
    decoded = decode(frame.code)
    before, now = decoded.handler_for(run), decoded.handler_for(frame.unit)
    if before is None:
        return None
    if frame.unit == before.target or now is None:
        return run
    return None if now.target == before.target or now.depth > before.depth else run


def _needed(frame: Activation, innermost: bool, run: int) -> frozenset[int]:
    """The variables that a frame still needs; a caller also those of its call's handler.

    And those with a generator: it is closed when the last variable that holds it is gone.
    """
    needed = live(frame.code, frame.unit) | {
        index for index, value in frame.locals.items() if _is_generator(value)
    }
    place = _behind(frame, run) if innermost else _current(frame, innermost=False)
    handler = None if place is None else decode(frame.code).handler_for(place)
    return needed if handler is None else needed | live(frame.code, handler.target)


def _is_generator(value: Any) -> bool:
    return type(value) is GeneratorType or type(value) is CoroutineType


def _moved(frame: Activation, unit: int, stack: Sequence[Any]) -> Activation:
    return Activation(frame.code, frame.globals, unit, frame.locals, list(stack))


def _on(frame: Activation) -> Activation:
    """Behind instructions that only drop what was not wanted, or put it into a variable.

    A constant in a variable is guarded when the program looks at it, not before.
    """
    while frame.stack and type(frame.stack[-1]) in (Result, type(None)):
        instruction = decode(frame.code).at(frame.unit)
        if instruction.name == "STORE_FAST":
            if type(frame.stack[-1]) is not Result:
                break
            variables = {**frame.locals, instruction.arg: frame.stack[-1]}
            frame = Activation(
                frame.code, frame.globals, instruction.next, variables, frame.stack[:-1]
            )
        elif instruction.name == "POP_TOP":
            frame = _moved(frame, instruction.next, frame.stack[:-1])
        else:
            break
    return frame


# 3.14+ returns a constant by two instructions.
_CONSTANTS: Final[dict[str, Callable[[Decoded, Instruction], Any]]] = (
    {"LOAD_CONST": constant, "LOAD_SMALL_INT": resolve, "LOAD_COMMON_CONSTANT": resolve}
    if "LOAD_SMALL_INT" in TABLES.opmap
    else {}
)


def _returned(frame: Activation) -> Any:
    """What a frame returns that does nothing else any more; NULL if it does."""
    decoded = decode(frame.code)
    instruction = decoded.at(frame.unit)
    if instruction.name == "RETURN_VALUE":
        return frame.stack[-1]
    if instruction.name == "RETURN_CONST":
        return constant(decoded, instruction)
    load = _CONSTANTS.get(instruction.name)
    if load is not None and decoded.at(instruction.next).name == "RETURN_VALUE":
        return load(decoded, instruction)
    return NULL


def _current(frame: Activation, innermost: bool) -> int:
    """The instruction a frame is at: a caller stands behind its call."""
    decoded = decode(frame.code)
    return decoded.at(frame.unit if innermost else frame.unit - 1).unit


def _place(frame: Activation, innermost: bool) -> Entry:
    code = frame.code
    unit = _current(frame, innermost)
    return entry(code, decode(code).line_of(unit) or code.co_firstlineno, unit)
