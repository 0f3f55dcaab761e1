"""One trace: from a function and its bound parameters to a graph, guards and a plan.

In: the function, and the values of its parameters. Out: a `Trace`. Nothing of the world, torch's
state included, is different afterwards, whether it succeeds or not.
"""

import contextlib
import dis
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from stator._native import _core as core
from stator.capture.outcome import Resolver, effects
from stator.capture.tensors import RecordingMode, Tensors
from stator.capture.tracer import Tracer
from stator.contracts import Depth
from stator.diagnostics.breaks import Break, Place
from stator.effects import CannotRebuild, Plan, plan
from stator.effects.exits import entries
from stator.evaluator import InternalError
from stator.evaluator.loop import evaluate
from stator.evaluator.operations import plain
from stator.graph import OutputGraph, Recorded
from stator.graph.arrays import Edges
from stator.graph.state import StateRecorder, preserved
from stator.guards import (
    CLOSURE,
    GLOBALS,
    Callback,
    Fixed,
    Guard,
    Index,
    Is,
    Local,
    NotAliased,
    Source,
)
from stator.guards.tensors import NoOverlap, torch_state_guards
from stator.world import World
from stator.world.kinds import CONSTANTS

_OURS: Final = str(Path(__file__).parents[1])


@dataclass
class Trace:
    """What one trace found out."""

    guards: list[Guard]
    recorded: Recorded | None
    """The graph; None if nothing was recorded."""
    inputs: list[Source]
    """Where the graph's inputs come from, in order."""
    plan: Plan | None
    """How to make the result, or what it raises.

    None if the trace was broken off, or if an operator of torch has raised: then the call runs as
    it is, under the guards.
    """
    broken: Break | None = None
    raised: BaseException | None = None
    edges: Edges = field(default_factory=Edges)
    """Which inputs and outputs of the graph are numpy arrays."""


def capture(function: FunctionType, bound: Sequence[Any]) -> Trace:
    """Traces one call of a function."""
    start = torch_state_guards()
    device, foreign = _function_modes()
    if device is not None:
        check = Callback(_same_device(device), f"default device {device}")
        start.append(Guard(Fixed(torch, "torch"), check))
    if foreign:
        return Trace(
            start, None, [], None, broken=Break(f"a torch function mode is active: {foreign}")
        )
    with preserved():
        graph = OutputGraph()
        graph.default_device = device
        world = World()
        with StateRecorder(graph) as state:
            tensors = Tensors(graph, world, state)
            tracer = Tracer(tensors, world)
            tensors.ready = tracer.values.ready
            tensors.stack_trace = tracer.stack_trace
            try:
                return _capture(tracer, function, bound, start)
            finally:
                tracer.close()


def _capture(
    tracer: Tracer, function: FunctionType, bound: Sequence[Any], start: list[Guard]
) -> Trace:
    world, graph = tracer.world, tracer.tensors.graph
    world.guards += start
    try:
        args, kwargs = _parameters(tracer, function, bound)
        with _modes(tracer):
            result, raised = _run(tracer, function, args, kwargs)
        if tracer.stopped is not None:
            raise tracer.stopped
        return _finish(tracer, graph, result, raised)
    except Break as signal:
        stopped = tracer.stopped or signal
        stopped.__traceback__ = None
        code = function.__code__
        stopped.places = stopped.places or (
            Place(code.co_filename, code.co_firstlineno, code.co_qualname),
        )
        return Trace(world.guards, None, [], None, broken=stopped)
    finally:
        tracer.calls.decimals.end()
        _close_generators(tracer)


def _close_generators(tracer: Tracer) -> None:
    """Ends generators that the trace has left suspended: their `finally` must not run for real."""
    operations = plain()
    operations.evaluate = _end  # type: ignore[method-assign]
    for reference in tracer.calls.generators:
        generator = reference()
        if generator is not None:
            with contextlib.suppress(GeneratorExit):
                core.run_with(operations, _close, generator)


def _close(generator: Any) -> None:
    generator.close()


def _end(frame: core.Frame) -> bool:
    """Leaves a frame at once, unless it is that of `_close`."""
    if frame.code is _close.__code__:
        return evaluate(frame)
    frame.result = GeneratorExit()
    frame.finish()
    return False


def _run(
    tracer: Tracer, function: FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, bool]:
    """What the program returns, or (with True) raises."""
    running = _running(tracer, function, args, kwargs)
    try:
        return next(running)
    finally:
        running.close()


def _running(
    tracer: Tracer, function: FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> Generator[tuple[Any, bool], None, None]:
    """A generator, since each has its own handled exception: a trace that is broken off in an
    `except` block leaves one behind.
    """
    try:
        outcome = core.run_with(tracer, function, *args, **kwargs), False
    except (Break, InternalError):
        raise
    except BaseException as error:
        if tracer.stopped is not None:
            raise tracer.stopped from None
        outcome = error, True
    yield outcome


def _function_modes() -> tuple[torch.device | None, str]:
    """The default device that a mode sets, and the name of a mode of the program's own, if any."""
    device = None
    modes: Any = _get_current_function_mode_stack
    for mode in modes():
        if type(mode) is not DeviceContext:
            return None, type(mode).__qualname__
        device = mode.device
    return device, ""


def _same_device(expected: torch.device) -> Callable[[Any], bool]:
    return lambda _: _function_modes() == (expected, "")


@contextlib.contextmanager
def _modes(tracer: Tracer) -> Iterator[None]:
    """torch's own machinery, as a trace needs it."""
    with RecordingMode(tracer.tensors):
        yield


def _parameters(
    tracer: Tracer, function: FunctionType, bound: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The parameters, wrapped, as arguments of a call that binds them the same way."""
    world, code = tracer.world, function.__code__
    world.guard(GLOBALS, Is(function.__globals__))
    tracer.calls._called.add(id(function))
    world.know(function)
    for index, cell in enumerate(function.__closure__ or ()):
        world.origins[id(cell)] = Index(CLOSURE, index)
    names = code.co_varnames
    count = code.co_argcount
    read = parameters_read(code)

    def wrapped(index: int) -> Any:
        if index not in read and CONSTANTS.holds(type(bound[index])):
            return bound[index]  # nobody looks at it
        return tracer.world.wrap(bound[index], Local(index, names[index]))

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


@functools.lru_cache(1000)
def parameters_read(code: CodeType) -> frozenset[int]:
    """The parameters that a function reads, by index; all of them if it may ask for its locals."""
    names = code.co_varnames
    if set(code.co_names) & _FRAME_READERS:
        return frozenset(range(len(names)))
    read = {names.index(name) for name in code.co_cellvars if name in names}
    for instruction in dis.get_instructions(code):
        if "FAST" in instruction.opname and instruction.opname != "STORE_FAST":
            found = instruction.argval
            read.update(names.index(n) for n in (found if type(found) is tuple else (found,)))
    return frozenset(read)


_FRAME_READERS: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "stack"})


def _finish(tracer: Tracer, graph: OutputGraph, result: Any, raised: bool) -> Trace:
    if not tracer.calls.locks.balanced():
        raise Break("a lock is taken and not released, or the other way round")
    tracer.calls.decimals.check()
    before = tracer.calls.context_before
    if any(value is not before[key] for key, value in tracer.calls.context.items()):
        raise Break("a context variable is set for good")
    if raised and result is tracer.tensors.refusal:
        # What a fake kernel says need not be what the real one does: the program itself will tell.
        return Trace(tracer.world.guards, None, [], None, raised=result)
    resolver = Resolver(tracer)
    changes = list(effects(tracer))
    try:
        passed = entries(result, _OURS) if raised else ()
        made = plan(result, changes, resolver, raises=raised, traceback=passed)
    except CannotRebuild as error:
        what = "raises" if raised else "returns or keeps"
        signal = Break(f"the function {what} {error}")
        signal.places = resolver.places
        raise signal from None
    tracer.arrays.check_end()
    tracer.world.guard_hashed()
    _guard_mutation(tracer, graph)
    # Before an exception, all operators run: a kernel may refuse what a fake one lets pass.
    recorded = graph.finish(resolver.outputs, whole=raised)
    trivial = not any(node.op not in ("placeholder", "output") for node in graph.graph.nodes)
    inputs = [tracer.tensors.sources[id(given.value)] for given in recorded.inputs]
    given = tracer.arrays.inputs
    edges = Edges(
        tuple(i for i, each in enumerate(recorded.inputs) if id(each.value) in given),
        tuple(resolver.arrays),
        tuple(resolver.scalars),
    )
    return Trace(
        tracer.world.guards,
        None if trivial and not resolver.outputs else recorded,
        inputs,
        made,
        raised=result if raised else None,
        edges=edges,
    )


def _guard_mutation(tracer: Tracer, graph: OutputGraph) -> None:
    """A graph that changes an input is right only while no other input is the same memory."""
    inputs = graph.fakes.inputs
    with torch._C.DisableTorchFunction():
        changed = [each for each in inputs if not each.untouched()]
        if not changed or len(inputs) < 2:
            return
        storages = [each.fake.untyped_storage()._cdata for each in inputs]
        shared = {storage for storage in storages if storages.count(storage) > 1}
        if any(each.fake.untyped_storage()._cdata in shared for each in changed):
            raise Break("an input is changed that shares its memory with another input")
    sources = tracer.tensors.sources
    first, *others = (sources[id(each.real)] for each in inputs)
    tracer.world.guard(first, NotAliased(tuple(others)))
    given = [sources[id(each.real)] for each in inputs if type(each.real) is torch.Tensor]
    for each in changed:
        source = sources[id(each.real)]
        rest = tuple(other for other in given if other is not source)
        if rest:
            tracer.world.guard(source, NoOverlap(rest))
