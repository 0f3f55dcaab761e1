"""The end of a trace: from what the program has done to what is compiled.

Stage: capture. In: a tracer whose program has ended, or is to be split. Out: a `Trace`: the graph
with its inputs, how to make the result and the effects (`Plan`), and the guards that only the end
can tell.
"""

import types
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from stator.capture.calls.caches import check_answers
from stator.capture.communication.works import check_waited
from stator.capture.objects.identities import guard_nans
from stator.capture.objects.weak_references import check_split
from stator.capture.tensors.shared_inputs import guard_changed, shared_inputs
from stator.capture.tensors.tensors import Tensors
from stator.capture.tensors.wrapper_results import check_results
from stator.capture.texts.showing import check_watched
from stator.capture.trace.outcome import Resolver, effects, state_effects
from stator.capture.trace.task import Trace
from stator.capture.trace.tracer import Tracer
from stator.diagnostics.catalogue import (
    BranchOnValues,
    LockHeld,
    NotRebuilt,
    SharedMemory,
    TensorSubclass,
)
from stator.effects import CannotRebuild, Effect, Passed, Plan, plan
from stator.effects.exits import entries
from stator.effects.suspension import Suspension, suspension
from stator.graph import Input, OutputGraph, Recorded
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.retry import Changes, Retry, changes_of, retry_of
from stator.graph.passes.unused_draws import unused_draws
from stator.graph.recording.arrays import Edges
from stator.graph.recording.nested import inline_single
from stator.graph.recording.region_gradients import detach_results
from stator.graph.unknown.symbols import reads_size
from stator.guards import Source
from stator.torchlib.tensors import DisableTorchFunction


def finish(tracer: Tracer, graph: OutputGraph, result: Any, raised: bool) -> Trace:
    """What a program comes to that has returned, has raised, or is to be split here."""
    _check_ended(tracer)
    guard_nans(tracer.world)
    check_waited(tracer.calls)
    if raised and result is tracer.tensors.refusal:
        # What a fake kernel says need not be what the real one does: the program itself will tell.
        shapes = tracer.tensors.shapes
        return Trace(tracer.world.guards, None, [], None, raised=result, shapes=shapes)
    middle = _suspension(tracer)
    operators = tracer.operators = operators_of(graph)
    inline_single(graph)
    resolver = Resolver(tracer)
    made = _planned(tracer, resolver, middle, result, raised)
    tracer.arrays.check_end()
    check_answers(tracer.calls, resolver.outputs)
    tracer.world.guard_hashed()
    tracer.world.guard_compared()
    given = [each for each in graph.fakes.inputs if _is_given(tracer.tensors, each.real)]
    groups = guard_changed(tracer, given)
    tracer.tensors.leaf_views.check(tracer, resolver.outputs)
    tracer.tensors.applied.check(tracer, resolver.outputs)
    check_watched(tracer.calls, resolver.outputs)
    check_results(tracer, resolver.outputs)
    tracer.tensors.wrappers.made.check(tracer, resolver.outputs)
    own = tracer.tensors.own
    own.gradients.retained.check(tracer, resolver.outputs)
    marked = own.finish(resolver.outputs)
    # Before an exception, all operators run: a kernel may refuse what a fake one lets pass.
    checked = [each.tensor for each in graph.checks]
    others = tracer.tensors.handled.unused([*resolver.outputs, *checked])
    unused = [_only_computed(graph, each, resolver.outputs) for each in others]
    unused += unused_draws(graph, [*resolver.outputs, *checked, *unused])
    detach_results(graph, [*resolver.outputs, *unused, *checked])
    recorded = graph.finish([*resolver.outputs, *unused, *checked], whole=raised)
    graph_changes = changes_of(graph, recorded)
    tracer.tensors.grads.forget(tracer.tensors, recorded, graph_changes)
    retry = _retry(tracer, graph, recorded, graph_changes)
    trivial = not any(node.op not in ("placeholder", "output") for node in graph.graph.nodes)
    needed = None if trivial and not resolver.outputs and not checked else recorded
    values = [] if needed is None else [each.identity for each in recorded.inputs]
    prologue, rest = own.prologue(values, marked)
    tracer.tensors.state_changes.check(tracer, graph_changes, steps=bool(prologue.steps))
    if retry is None or retry.early or retry.checks is not None:
        handled = tracer.tensors.handled
        steps = bool(prologue.steps)
        undo = handled.retry(tracer, recorded, graph_changes, steps=steps)
        if undo is not None and retry is not None and retry.checks is not None:
            retry = replace(retry, checks=None)  # they don't help if the graph itself raises
        else:
            retry = undo or retry
    shared = shared_inputs(recorded, groups)
    if shared.groups and retry is not None:
        raise SharedMemory("inputs share memory, in a graph that may have to be undone")
    inputs = [_input_source(tracer, value) for value in rest] + own.given
    views = tracer.tensors.refusing_views.among(tracer, recorded, resolver.outputs)
    edges = Edges(
        tuple(_positions(recorded, tracer.arrays.inputs)),
        tuple(resolver.arrays),
        tuple(resolver.scalars),
        tuple(_positions(recorded, tracer.tensors.shapes.floats.inputs)),
        tuple(_positions(recorded, tracer.tensors.subclasses.inputs)),
        tuple(_made_otherwise(tracer, resolver.outputs)),
        tuple(views),
    )
    tracer.tensors.shapes.assumed.ended()
    return Trace(
        tracer.world.guards,
        needed,
        inputs,
        made,
        raised=result if raised else None,
        retry=retry,
        changes=graph_changes,
        ranges=tuple(tracer.tensors.own.settings.ranges),
        refuses=tracer.tensors.handled.any(),
        edges=edges,
        shared=shared,
        prologue=prologue,
        suspension=middle,
        speculated=tracer.tensors.scalars.speculation.used,
        steps=tracer.steps,
        writes=tracer.written,
        operators=operators,
        shapes=tracer.tensors.shapes,
        of_process=tracer.world.of_process,
        shows=bool(tracer.calls.shows or tracer.calls.logs),
    )


def _only_computed(graph: OutputGraph, tensor: torch.Tensor, outputs: Sequence[Any]) -> Any:
    """A tensor as one more result: autograd must not keep what it is computed from.

    If a result has its memory it is a copy: AOTAutograd would make that result from this one, which
    has no gradient.
    """
    if not tensor.requires_grad:
        return tensor
    made = graph.call(("method", "detach"), (tensor,))
    results = (each for each in outputs if isinstance(each, torch.Tensor))
    if any(storage_of(each) == storage_of(tensor) for each in results):
        made = graph.call(torch.clone, (made,))
    return made


def _check_ended(tracer: Tracer) -> None:
    """What has begun must have ended."""
    if not tracer.calls.locks.balanced():
        raise LockHeld("a lock is taken and not released, or the other way round")
    if tracer.tensors.overrides.switched:
        raise TensorSubclass("`__torch_function__` is off where the program would be split")
    tracer.calls.decimals.check()
    tracer.calls.files.check()


def _suspension(tracer: Tracer) -> Suspension | None:
    """How the program goes on, if it is to be split here."""
    if tracer.suspended is None:
        return None
    middle = suspension(tracer.suspended)
    if middle is None or (middle.step.later and _begins(tracer, middle)):
        tracer.unfit = True
        raise NotRebuilt("the program can't be split here")
    return middle


def _begins(tracer: Tracer, middle: Suspension) -> bool:
    """Whether the trace began where the program would go on: nothing would ever run there."""
    begun, _ = tracer.resumed
    next_one = middle.way.points[-1]
    return bool(begun) and begun[-1].code is next_one.code and begun[-1].unit == next_one.unit


def _planned(
    tracer: Tracer, resolver: Resolver, middle: Suspension | None, result: Any, raised: bool
) -> Plan:
    """How to make what the program returns, raises or needs, and what it has changed."""
    if middle is not None:
        check_split(tracer.calls)
        tracer.calls.errors.wanted()  # that it is split here is right as long as this holds
    calls = tracer.calls
    changes = [*effects(tracer), *state_effects(tracer), *calls.errors.effects()]
    changes += [*calls.contexts.effects(), *calls.decimals.effects()]
    if tracer.writes is not None:
        tracer.written = tracer.writes.of(changes, tracer.written_cells)
    if raised:
        changes = list(_leaving(changes, tracer.world.origins.get(id(result))))
    try:
        passed = entries(result) if raised else ()
        wanted = () if middle is None else middle.values
        made = plan(result, changes, resolver, raises=raised, traceback=passed, values=wanted)
        tracer.calls.deaths.check(lambda target: id(target) in resolver.rebuilt)
        return made
    except CannotRebuild as error:
        what = "raises" if raised else "returns or keeps"
        if middle is not None:
            what = "needs, where it would be split,"
        tracer.before = tracer.calls.made_at.get(id(error.value))
        signal = NotRebuilt(f"the function {what} {error}")
        signal.places = resolver.places
        raise signal from None


def _leaving(changes: Sequence[Effect], source: Source | None) -> Iterator[Effect]:
    """Where the exception at `source` has passed is added to its traceback when it is raised."""
    for each in changes:
        if isinstance(each, Passed) and each.target is source:
            yield replace(each, places=())
        else:
            yield each


def _retry(
    tracer: Tracer, graph: OutputGraph, recorded: Recorded, changed: Changes
) -> Retry | None:
    """How to call the graph, if its checks may fail."""
    retry = retry_of(graph, recorded, changed)
    if retry is None and tracer.tensors.own.draws.drawn.used:
        retry = Retry(early=True)
    if (graph.assumptions or graph.checks) and (retry is None or retry.early):
        raise BranchOnValues("values are checked in a graph that can't be undone if that fails")
    return retry


def operators_of(graph: OutputGraph) -> tuple[Any, ...]:
    """Those of the program, in its order."""
    nodes = [node for node in graph.graph.nodes if node.op != "placeholder"]
    return tuple([(node.op, _shown(node.target)) for node in nodes if not reads_size(node)])


def _shown(target: Any) -> str:
    """A target as text. A function may be made anew in each trace (`construction`)."""
    if type(target) is types.FunctionType:
        return f"{target.__module__}.{target.__qualname__}"
    return str(target)


def _positions(recorded: Recorded, tensors: Container[int]) -> Iterator[int]:
    """Which inputs are these, by id."""
    return (i for i, each in enumerate(recorded.inputs) if id(each.value) in tensors)


def _made_otherwise(tracer: Tracer, outputs: Sequence[Any]) -> Iterator[tuple[int, bool]]:
    """Outputs that are inference tensors where the call does not make such, or the other way."""
    with DisableTorchFunction():
        mode = torch.is_inference_mode_enabled()
        tensors = [(i, each) for i, each in enumerate(outputs) if isinstance(each, torch.Tensor)]
        found = [(i, each) for i, each in tensors if each.is_inference() is not mode]
        found = [(i, each) for i, each in found if _is_plain(each)]
        if not found:
            return
        given = {storage_of(each) for each in tracer.tensors.graph.fakes.given_memory()}
        for position, value in found:
            if storage_of(value) not in given:  # a view is what its base is
                yield position, not mode


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether all that there is of a tensor is memory and how it lies there."""
    return tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()


def _input_source(tracer: Tracer, given: Any) -> Source:
    if type(given) is Input:
        return tracer.tensors.shapes.input_source(given.name)
    return tracer.tensors.sources[id(given)]


def _is_given(tensors: Tensors, real: torch.Tensor) -> bool:
    """Whether an input is a tensor of the world, which others may share their memory with."""
    return not tensors.own.is_made(real) and id(real) not in tensors.shapes.floats.inputs
