"""With what a trace begins: the values of parameters, or of the frames that go on.

Stage: capture. In: the raw values that a task has bound. Out: stand-ins, as the arguments of a call
or as the variables and stacks of frames.
"""

from collections.abc import Sequence
from types import CellType, FunctionType
from typing import Any

from stator.bytecode import decode
from stator.bytecode.liveness import FRAME_READERS
from stator.capture.objects.names import Waiting
from stator.capture.trace.task import Task
from stator.capture.trace.tracer import Tracer
from stator.capture.trace.wanted import NEXT_ITEM
from stator.contracts import Depth
from stator.evaluator.points import Slot
from stator.guards import CLOSURE, GLOBALS, CellAt, Is, Local
from stator.world.identity import variables
from stator.world.kinds import CONSTANTS


def parameters(
    tracer: Tracer, function: FunctionType, bound: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The parameters, wrapped, as arguments of a call that binds them the same way."""
    world, code = tracer.world, function.__code__
    world.guard(GLOBALS, Is(function.__globals__))
    tracer.calls.called.add(id(function))
    world.know(function)
    for index, (name, cell) in enumerate(variables(function)):
        world.origins[id(cell)] = CellAt(CLOSURE, index, name)
    names = code.co_varnames
    count = code.co_argcount
    lazily = not FRAME_READERS.intersection(code.co_names)

    def wrapped(index: int) -> Any:
        raw, source = bound[index], Local(index, names[index])
        if lazily and CONSTANTS.holds(type(raw)) and names[index] not in code.co_cellvars:
            tracer.parameters[index] = Waiting(raw, source)
            return raw
        return world.wrap(raw, source)

    args = [wrapped(i) for i in range(count)]
    position = count + code.co_kwonlyargcount
    kwargs = {names[i]: wrapped(i) for i in range(count, position)}
    if code.co_flags & 0x04:
        args += tracer.world.wrap(bound[position], Local(position, names[position]))
        position += 1
    if code.co_flags & 0x08:
        shadow = tracer.world.wrap(bound[position], Local(position, names[position]))
        tracer.values.ready(shadow, Depth.SHALLOW)
        kwargs.update(shadow)
    return args, kwargs


def resumed_values(tracer: Tracer, task: Task) -> list[Any]:
    """The values of the frames with which a trace begins, wrapped."""
    world = tracer.world
    given = iter(enumerate(task.bound))
    values: list[Any] = []
    iterators: list[Any] = []
    for point in task.points:
        names = decode(point.code).localsplus
        lazily = not FRAME_READERS.intersection(point.code.co_names)
        in_cells = {*point.code.co_cellvars, *point.code.co_freevars}
        for variable in point.locals:
            index, raw = next(given)
            source = Local(index, names[variable])
            if type(raw) is CellType and names[variable] in in_cells:
                world.keep(raw)
                world.origins[id(raw)] = source
                values.append(raw)
            elif CONSTANTS.holds(type(raw)) and lazily:
                values.append(Waiting(raw, source))
            else:
                values.append(world.wrap(raw, source))
        for position, kind in enumerate(point.stack):
            if kind in (Slot.VALUE, Slot.ITERATOR, Slot.HANDLED):
                index, raw = next(given)
                values.append(world.wrap(raw, Local(index, f"stack[{position}]")))
                if kind is Slot.ITERATOR:
                    iterators.append(values[-1])
    for iterator, (index, raw) in zip(iterators, given, strict=True):
        tracer.ahead.know(iterator, raw, Local(index, NEXT_ITEM))
    return values
