"""One trace: from a function and its bound parameters to a graph, guards and a plan.

In: the function, and the values of its parameters. Out: a `Trace`. Nothing of the world, torch's
state included, is different afterwards, whether it succeeds or not.
"""

import contextlib
import sys
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import Any, Final

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode

from stator._native import _core as core
from stator.bytecode import decode
from stator.bytecode.liveness import FRAME_READERS
from stator.capture import controls
from stator.capture.blame import blame
from stator.capture.cached import check_answers
from stator.capture.entered import note, ours
from stator.capture.names import Waiting
from stator.capture.outcome import Resolver, effects, state_effects
from stator.capture.shapes import Shapes, Wanted
from stator.capture.tensors import RecordingMode, Tensors
from stator.capture.tracer import Suspended, Tracer, frames, resume
from stator.capture.weakly import check_split
from stator.contracts import Depth
from stator.diagnostics import logs, progress
from stator.diagnostics.breaks import Break, Place
from stator.diagnostics.catalogue import (
    BranchOnValues,
    FunctionMode,
    HiddenState,
    LockHeld,
    NotRebuilt,
    RegionContents,
    SharedMemory,
    TensorSubclass,
    Transform,
)
from stator.effects import CannotRebuild, Plan, plan
from stator.effects.exits import entries
from stator.effects.suspension import Suspension, suspension
from stator.evaluator import InternalError
from stator.evaluator.loop import evaluate
from stator.evaluator.operations import plain
from stator.evaluator.points import Point, Slot
from stator.graph import Input, OutputGraph, Recorded, UntrackedTensorError
from stator.graph.arrays import Edges
from stator.graph.prologue import Prologue
from stator.graph.retry import Changes, Retry, changes_of, retry_of
from stator.graph.state import StateRecorder, preserved
from stator.graph.symbols import reads_size
from stator.guards import (
    CLOSURE,
    GLOBALS,
    Callback,
    Fixed,
    Guard,
    Index,
    Is,
    Key,
    Local,
    NotAliased,
    Source,
)
from stator.guards.tensors import NoOverlap, torch_state_guards
from stator.world import World
from stator.world.kinds import CONSTANTS


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
    error: bool = False
    """The program wants breaks to be errors, where it was broken off."""
    raised: BaseException | None = None
    retry: Retry | None = None
    """How to call the graph, if the program is to run in its place when a check in it fails."""
    changes: Changes | None = None
    """What the graph changes, if there is one."""
    edges: Edges = field(default_factory=Edges)
    """Which inputs and outputs of the graph are numpy arrays or floats."""
    prologue: Prologue = field(default_factory=Prologue)
    """What happens before the graph. It takes the last of the inputs, and makes some itself."""
    suspension: Suspension | None = None
    """How the program goes on, if the trace ends in the middle."""
    steps: int = 0
    """How many instructions of the outermost loop have run before it ended."""
    unfit: bool = False
    """It can't end here, since the next instruction can't be carried out on its own."""
    before: int | None = None
    """If it can't end here: an earlier step, where it may."""
    speculated: bool = False
    """Whether values were taken for granted that the graph checks."""
    operators: tuple[Any, ...] = ()
    """What was recorded, for comparison with another trace of the same call."""
    shapes: Shapes | None = None
    """What it assumes of the sizes and ints that are left open."""

    def all_guards(self) -> tuple[Guard, ...]:
        """With those on sizes, of which the backend may have added some."""
        return (*self.guards, *(() if self.shapes is None else self.shapes.guards()))


@dataclass(frozen=True)
class Task:
    """What is traced: a call of a function, or the rest of one."""

    function: FunctionType
    bound: Sequence[Any]
    """The values of its parameters, or those that the points need."""
    points: tuple[Point, ...] = ()
    """Where it begins, if in the middle."""
    careful: bool = False
    """Nothing is taken for granted that only the graph could check."""
    wanted: Wanted = field(default_factory=Wanted)
    """Which sizes and ints are left open."""

    @property
    def place(self) -> Place:
        if self.points:
            point = self.points[-1]
            line = decode(point.code).line_of(point.unit) or point.code.co_firstlineno
            return Place(point.code.co_filename, line, point.code.co_qualname)
        code = self.function.__code__
        return Place(code.co_filename, code.co_firstlineno, code.co_qualname)


def capture(function: FunctionType, bound: Sequence[Any]) -> Trace:
    """Traces one call of a function, as one graph."""
    return trace(Task(function, bound))


def trace(task: Task, limit: int = sys.maxsize) -> Trace:
    """Traces a call, to its end or for so many instructions of the outermost loop."""
    start = torch_state_guards()
    device, foreign = _function_modes()
    if device is not None:
        check = Callback(_same_device(device), f"default device {device}")
        start.append(Guard(Fixed(torch, "torch"), check))
    if foreign:
        signal = FunctionMode(f"a mode of torch is active: {foreign}")
        return Trace(start, None, [], None, broken=signal)
    if _in_transform():
        start.append(Guard(Fixed(torch, "torch"), Callback(_in_transform, "in a transform")))
        inside = Transform("the function is called inside of torch.func.grad, vmap or the like")
        return Trace(start, None, [], None, broken=inside)
    with preserved() as state_before:
        graph = OutputGraph()
        controls.learn()  # fake tensors may just have loaded torch._dynamo
        graph.default_device = device
        world = World()
        world.blame = blame
        with StateRecorder(graph, state_before) as state:
            tensors = Tensors(graph, world, state, task.wanted)
            tracer = Tracer(tensors, world)
            tracer.limit = limit
            tracer.noted = logs.on("dynamo", task.place, verbose=True)
            progress.stage("tracing", graph.graph.nodes.__len__)
            tensors.scalars.careful = task.careful
            if not task.careful:
                tensors.scalars.speculation.start = state_before
            tensors.ready = tracer.values.ready
            tensors.stack_trace = tracer.stack_trace
            try:
                return _trace(tracer, task, start)
            finally:
                tracer.close()


def _trace(tracer: Tracer, task: Task, start: list[Guard]) -> Trace:
    world, graph = tracer.world, tracer.tensors.graph
    world.guards += start
    try:
        if task.points:
            tracer.resumed = task.points, _resumed_values(tracer, task)
            function: Any = resume
            args: list[Any] = [frames]
            kwargs: dict[str, Any] = {}
            ours(tracer.calls, resume)
        else:
            function = task.function
            args, kwargs = _parameters(tracer, function, task.bound)
        with _modes(tracer):
            result, raised = _run(tracer, function, args, kwargs)
        if tracer.interrupted is not None:
            raise tracer.interrupted  # C code has swallowed it
        note(tracer.calls, result)  # a coroutine that nobody awaits says so when it dies
        if tracer.stopped is not None:
            raise tracer.stopped
        try:
            return _finish(tracer, graph, result, raised)
        except UntrackedTensorError:
            raise RegionContents("a tensor has left a region sideways, and is kept") from None
    except Break as signal:
        stopped = tracer.stopped or signal
        stopped.__traceback__ = None
        stopped.places = stopped.places or (task.place,)
        return Trace(
            world.guards,
            None,
            [],
            None,
            broken=stopped,
            error=tracer.calls.errors.wanted() and not stopped.asked,
            steps=_last_step(tracer),
            unfit=tracer.unfit,
            speculated=tracer.tensors.scalars.speculation.used,
            before=tracer.before,
            # Where the graph has been finished already, checks were added to it.
            operators=_operators(graph) if tracer.operators is None else tracer.operators,
            shapes=tracer.tensors.shapes,
        )
    finally:
        tracer.calls.decimals.end()
        _close_generators(tracer)
        graph.fakes.release()


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
    """What the program returns, or (with True) raises.

    The exception that the caller is handling is not part of the trace: it is another one, or none,
    when the residual function runs, where CPython makes it the context of what is raised.
    """
    running = _running(tracer, function, args, kwargs)
    tracer.handled_outside = core.get_handled_exception()
    before = core.swap_handled_exception(None)
    ended: tuple[Any, bool] | BaseException
    try:
        ended = next(running)
    except BaseException as error:
        ended = error
    running.close()
    core.set_handled_exception(before)  # behind the handler, whose end sets it, too
    if isinstance(ended, BaseException):
        raise ended
    return ended


def _running(
    tracer: Tracer, function: FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> Generator[tuple[Any, bool], None, None]:
    """A generator, since each has its own handled exception: a trace that is broken off in an
    `except` block leaves one behind.
    """
    try:
        outcome = core.run_with(tracer, function, *args, **kwargs), False
        tracer.calls.abandoned.settle(None)
    except (Break, InternalError):
        raise
    except Suspended:
        outcome = None, False
    except BaseException as error:
        if tracer.interrupted is not None:
            raise tracer.interrupted from None
        if tracer.stopped is not None:
            raise tracer.stopped from None
        outcome = error, True
    yield outcome


def _dispatch_mode() -> str:
    """The name of an active dispatch mode, if any."""
    if not torch._C._len_torch_dispatch_stack():
        return ""
    return type(_get_current_dispatch_mode()).__qualname__


def _function_modes() -> tuple[torch.device | None, str]:
    """The default device that a mode sets, and the name of a mode of the program's own, if any."""
    if name := _dispatch_mode():
        return None, name
    device = None
    modes: Any = _get_current_function_mode_stack
    for mode in modes():
        if type(mode) is not DeviceContext:
            return None, type(mode).__qualname__
        device = mode.device
    return device, ""


def _in_transform(_: object = None) -> bool:
    """Whether a transform of `torch.func` is running, under which tensors are wrapped."""
    return torch._C._functorch.peek_interpreter_stack() is not None


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
    tracer.calls.called.add(id(function))
    world.know(function)
    for index, cell in enumerate(function.__closure__ or ()):
        world.origins[id(cell)] = Index(CLOSURE, index)
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


def _resumed_values(tracer: Tracer, task: Task) -> list[Any]:
    """The values of the frames with which a trace begins, wrapped."""
    world = tracer.world
    given = iter(enumerate(task.bound))
    values: list[Any] = []
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
            if kind in (Slot.VALUE, Slot.HANDLED):
                index, raw = next(given)
                values.append(world.wrap(raw, Local(index, f"stack[{position}]")))
    return values


def _last_step(tracer: Tracer) -> int:
    """Before which instruction of the outermost loop the trace must end, since it can't go on."""
    if tracer.stopped is not None:
        return tracer.stopped_at
    return tracer.steps if tracer.suspended is not None else tracer.steps - 1


def _operators(graph: OutputGraph) -> tuple[Any, ...]:
    """Those of the program, in its order."""
    nodes = (n for n in graph.graph.nodes if n.op != "placeholder" and not reads_size(n))
    return tuple((node.op, str(node.target)) for node in nodes)


def _finish(tracer: Tracer, graph: OutputGraph, result: Any, raised: bool) -> Trace:
    if not tracer.calls.locks.balanced():
        raise LockHeld("a lock is taken and not released, or the other way round")
    if tracer.tensors.overrides.switched:
        raise TensorSubclass("`__torch_function__` is off where the program would be split")
    tracer.calls.decimals.check()
    before = tracer.calls.context_before
    if any(value is not before[key] for key, value in tracer.calls.context.items()):
        raise HiddenState("a context variable is set for good")
    if raised and result is tracer.tensors.refusal:
        # What a fake kernel says need not be what the real one does: the program itself will tell.
        shapes = tracer.tensors.shapes
        return Trace(tracer.world.guards, None, [], None, raised=result, shapes=shapes)
    middle = None
    if tracer.suspended is not None:
        middle = suspension(tracer.suspended)
        if middle is None:
            tracer.unfit = True
            raise NotRebuilt("the program can't be split here")
    operators = tracer.operators = _operators(graph)
    resolver = Resolver(tracer)
    if middle is not None:
        check_split(tracer.calls)
        tracer.calls.errors.wanted()  # that it is split here is right as long as this holds
    changes = [*effects(tracer), *state_effects(tracer), *tracer.calls.errors.effects()]
    try:
        passed = entries(result) if raised else ()
        wanted = () if middle is None else middle.values
        made = plan(result, changes, resolver, raises=raised, traceback=passed, values=wanted)
    except CannotRebuild as error:
        what = "raises" if raised else "returns or keeps"
        if middle is not None:
            what = "needs, where it would be split,"
        tracer.before = tracer.calls.made_at.get(id(error.value))
        signal = NotRebuilt(f"the function {what} {error}")
        signal.places = resolver.places
        raise signal from None
    tracer.arrays.check_end()
    check_answers(tracer.calls, resolver.outputs)
    tracer.world.guard_hashed()
    _guard_mutation(tracer, graph)
    own = tracer.tensors.own
    marked = own.finish(resolver.outputs)
    # Before an exception, all operators run: a kernel may refuse what a fake one lets pass.
    checked = [tensor for tensor, _ in graph.checks]
    recorded = graph.finish([*resolver.outputs, *checked], whole=raised)
    graph_changes = changes_of(graph, recorded)
    retry = retry_of(graph, recorded, graph_changes)
    if retry is None and own.draws.drawn.used:
        retry = Retry(early=True)
    if (graph.assumptions or graph.checks) and (retry is None or retry.early):
        raise BranchOnValues("values are checked in a graph that can't be undone if that fails")
    trivial = not any(node.op not in ("placeholder", "output") for node in graph.graph.nodes)
    needed = None if trivial and not resolver.outputs and not checked else recorded
    values = [] if needed is None else [each.identity for each in recorded.inputs]
    prologue, rest = own.prologue(values, marked)
    if retry is None or retry.early:
        handled = tracer.tensors.handled
        steps = bool(prologue.steps)
        retry = handled.retry(tracer, recorded, graph_changes, steps=steps) or retry
    inputs = [_input_source(tracer, value) for value in rest] + own.given
    edges = Edges(
        tuple(_positions(recorded, tracer.arrays.inputs)),
        tuple(resolver.arrays),
        tuple(resolver.scalars),
        tuple(_positions(recorded, tracer.tensors.shapes.floats.inputs)),
        tuple(_positions(recorded, tracer.tensors.subclasses.inputs)),
    )
    tracer.tensors.shapes.ended()
    return Trace(
        tracer.world.guards,
        needed,
        inputs,
        made,
        raised=result if raised else None,
        retry=retry,
        changes=graph_changes,
        edges=edges,
        prologue=prologue,
        suspension=middle,
        speculated=tracer.tensors.scalars.speculation.used,
        steps=tracer.steps,
        operators=operators,
        shapes=tracer.tensors.shapes,
    )


def _positions(recorded: Recorded, tensors: Container[int]) -> Iterator[int]:
    """Which inputs are these, by id."""
    return (i for i, each in enumerate(recorded.inputs) if id(each.value) in tensors)


def _input_source(tracer: Tracer, given: Any) -> Source:
    if type(given) is Input:
        return tracer.tensors.shapes.input_source(given.name)
    return tracer.tensors.sources[id(given)]


def _is_given(tensors: Tensors, real: torch.Tensor) -> bool:
    """Whether an input is a tensor of the world, which others may share their memory with."""
    return not tensors.own.is_made(real) and id(real) not in tensors.shapes.floats.inputs


_OVERLAPS: Final = 1  # as torch says it of strides that are 0


def _guard_mutation(tracer: Tracer, graph: OutputGraph) -> None:
    """A graph that changes an input is right only while no other input is the same memory."""
    inputs = [each for each in graph.fakes.inputs if _is_given(tracer.tensors, each.real)]
    with torch._C.DisableTorchFunction():
        written = graph.overwritten  # also through `.data`, which counts no version
        changed = [
            each
            for each in inputs
            if not each.untouched() or each.fake.untyped_storage()._cdata in written
        ]
        if any(torch._debug_has_internal_overlap(each.real) == _OVERLAPS for each in changed):
            raise SharedMemory("an input is changed whose elements share memory (expand)")
        if not changed or len(inputs) < 2:
            return
        storages = [each.fake.untyped_storage()._cdata for each in inputs]
        shared = {storage for storage in storages if storages.count(storage) > 1}
        if any(each.fake.untyped_storage()._cdata in shared for each in changed):
            raise SharedMemory("an input is changed that shares its memory with another input")
    sources = tracer.tensors.sources
    first, *others = (sources[id(each.real)] for each in inputs)
    tracer.world.guard(first, NotAliased(tuple(others)))
    given = [sources[id(each.real)] for each in inputs if type(each.real) is torch.Tensor]
    for each in changed:
        source = sources[id(each.real)]
        # Arguments may be parts of parameters; to ask that of all buffers would take too long.
        among = (first, *others) if _is_argument(source) else given
        rest = tuple(other for other in among if other is not source)
        if rest:
            tracer.world.guard(source, NoOverlap(rest))


def _is_argument(source: Source) -> bool:
    """Whether it is an argument, or in a container that is one."""
    step: Source | None = source
    while type(step) in (Index, Key):
        step = step.base if step is not None else None
    return type(step) is Local
