"""One trace: from a function and its bound parameters to a graph, guards and a plan.

Stage: capture. In: the function, and the values of its parameters (`Task`). Out: a `Trace`. Nothing
of the world, torch's state included, is different afterwards, whether it succeeds or not.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from types import FunctionType
from typing import Any

import torch

from stator import config
from stator._native import _core as core
from stator.capture.calls import controls
from stator.capture.calls.python_calls import note, ours
from stator.capture.calls.replaced_functions import replaced
from stator.capture.modules.module_hooks import Hooks
from stator.capture.objects.passed_strings import Held
from stator.capture.regions.leaving import left
from stator.capture.tensors.annotations import noted
from stator.capture.tensors.tensors import RecordingMode, Tensors
from stator.capture.trace.blame import blame
from stator.capture.trace.budget import Budget
from stator.capture.trace.causes import blamed
from stator.capture.trace.finish import finish, operators_of
from stator.capture.trace.lifetime import living
from stator.capture.trace.start_values import parameters, resumed_values
from stator.capture.trace.task import Task, Trace, Trust
from stator.capture.trace.tracer import Suspended, Tracer, frames, resume
from stator.capture.trace.writes import Writes
from stator.diagnostics import logs, progress
from stator.diagnostics.breaks import Break, Failed, failures_are_raised
from stator.diagnostics.catalogue import (
    FunctionMode,
    NoGraphOperation,
    Transform,
)
from stator.diagnostics.places import shown
from stator.evaluator import InternalError
from stator.evaluator.loop import evaluate
from stator.evaluator.operations import plain
from stator.graph import OutputGraph, UntrackedTensorError
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.shown import nothing_shown
from stator.graph.recording.state import StateRecorder, preserved
from stator.guards import Callback, Fixed, Guard
from stator.guards.tensors import torch_state_guards
from stator.torchlib.modes import (
    DeviceContext,
    current_dispatch_mode,
    function_mode_stack,
    len_dispatch_stack,
)
from stator.torchlib.transforms import peek_interpreter_stack
from stator.world import World


def capture(function: FunctionType, bound: Sequence[Any]) -> Trace:
    """Traces one call of a function, as one graph."""
    return trace(Task(function, bound))


def trace(task: Task, limit: int = sys.maxsize) -> Trace:
    """Traces a call, to its end or for so many instructions of the outermost loop."""
    other = replaced()
    if other is not None:
        signal = NoGraphOperation(f"{other.source} was replaced, which is asked for while tracing")
        return Trace([other], None, [], None, broken=signal)
    start = torch_state_guards()
    device, foreign = _function_modes()
    if device is not None:
        check = Callback(_same_device(device), f"default device {device}")
        start.append(Guard(Fixed(torch, "torch"), check))
    if foreign:
        mode = FunctionMode(f"a mode of torch is active: {foreign}")
        return Trace(start, None, [], None, broken=mode)
    if _in_transform():
        start.append(Guard(Fixed(torch, "torch"), Callback(_in_transform, "in a transform")))
        inside = Transform("the function is called inside of torch.func.grad, vmap or the like")
        return Trace(start, None, [], None, broken=inside)
    with nothing_shown(), preserved() as state_before:
        graph = OutputGraph()
        living(graph)
        controls.learn()  # fake tensors may just have loaded torch._dynamo
        graph.default_device = device
        graph.apart = task.apart
        world = World()
        world.blame = blame
        with StateRecorder(graph, state_before) as state:
            tensors = Tensors(graph, world, state, task.wanted)
            tracer = Tracer(tensors, world)
            tracer.limit = limit
            graph.annotations = noted(world)
            if config.side_effect_policy != "silent":
                tracer.writes = Writes(world, task)
            tracer.noted = logs.on("dynamo", task.place, verbose=True)
            progress.stage("tracing", graph.graph.nodes.__len__)
            if task.wanted.hooks:
                tracer.hooks = Hooks(tracer, task.wanted.hooks)
            if task.wanted.held:
                world.symbolic[str] = Held(tracer, task.wanted.held).wrap
            tensors.budget = Budget(task.splits, patient=task.whole)
            tracer.calls.whole = task.whole
            tracer.calls.regions.inlined = task.inlined
            tracer.calls.regions.auto = task.auto
            tensors.scalars.careful = task.trust is Trust.NOTHING
            if task.trust is not Trust.NOTHING:
                tensors.scalars.speculation.start = state_before
                tensors.scalars.speculation.varied = task.varied
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
            tracer.resumed = task.points, resumed_values(tracer, task)
            function: Any = resume
            args: list[Any] = [frames]
            kwargs: dict[str, Any] = {}
            ours(tracer.calls, resume)
        else:
            function = task.function
            args, kwargs = parameters(tracer, function, task.bound)
        with _modes(tracer):
            result, raised = _run(tracer, function, args, kwargs)
        if tracer.interrupted is not None:
            raise tracer.interrupted  # C code has swallowed it
        note(tracer.calls, result)  # a coroutine that nobody awaits says so when it dies
        if tracer.stopped is not None:
            raise tracer.stopped
        try:
            return finish(tracer, graph, result, raised)
        except UntrackedTensorError as error:
            raise left(error, "and is kept") from None
    except Break as signal:
        return _broken_off(tracer, task, tracer.stopped or signal)
    except RecursionError:
        raise
    except Exception as error:
        if error is tracer.interrupted or is_interrupt(error):
            raise
        return _broken_off(tracer, task, tracer.stopped or Failed(error, whole=True))
    finally:
        tracer.calls.decimals.end()
        tracer.calls.coroutines.end()
        _close_generators(tracer)
        graph.fakes.release()


def _broken_off(tracer: Tracer, task: Task, stopped: Break) -> Trace:
    """What is known of a program that can't be captured, or on which we have failed."""
    if isinstance(stopped, Failed) and failures_are_raised():
        raise failure(str(task.place), stopped)
    stopped.__traceback__ = stopped.__context__ = None  # frames, with all that they hold
    stopped.places = stopped.places or (task.place,)
    blamed(tracer.tensors.graph, stopped, task)
    return Trace(
        tracer.world.guards,
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
        operators=(
            operators_of(tracer.tensors.graph) if tracer.operators is None else tracer.operators
        ),
        looked=frozenset(tracer.world.looked),
        regions=(*tracer.calls.regions.inside(stopped), *tracer.calls.whole_calls.open),
        shapes=tracer.tensors.shapes,
    )


def failure(what: str, failed: Failed) -> InternalError:
    """The error for those who want to see our failures."""
    cause = failed.error
    if isinstance(cause, InternalError):
        return cause
    error = InternalError.report(f"compile {what}", cause or failed)
    if failed.places:
        error.add_note("\n".join(shown(failed.places)))
    return error


def _last_step(tracer: Tracer) -> int:
    """Before which instruction of the outermost loop the trace must end, since it can't go on."""
    if tracer.stopped is not None:
        return tracer.stopped_at
    return tracer.steps if tracer.suspended is not None else tracer.steps - 1


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
        tracer.calls.deaths.settle()
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


@contextlib.contextmanager
def _modes(tracer: Tracer) -> Iterator[None]:
    """torch's own machinery, as a trace needs it."""
    with RecordingMode(tracer.tensors):
        yield


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


def _dispatch_mode() -> str:
    """The name of an active dispatch mode, if any."""
    if not len_dispatch_stack():
        return ""
    return type(current_dispatch_mode()).__qualname__


def _function_modes() -> tuple[torch.device | None, str]:
    """The default device that a mode sets, and the name of a mode of the program's own, if any."""
    if name := _dispatch_mode():
        return None, name
    device = None
    modes: Any = function_mode_stack
    for mode in modes():
        if type(mode) is not DeviceContext:
            return None, type(mode).__qualname__
        device = mode.device
    return device, ""


def _in_transform(_: object = None) -> bool:
    """Whether a transform of `torch.func` is running, under which tensors are wrapped."""
    return peek_interpreter_stack() is not None


def _same_device(expected: torch.device) -> Callable[[Any], bool]:
    return lambda _: _function_modes() == (expected, "")
