"""What of a compilation is stored: its parts, and why some can't be.

Stage: driver. In: a trace and what was built of it. Out: `Parts` (stator.store), which hold nothing
that the entry does not hold itself.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from stator.diagnostics.artefacts import Title
from stator.driver.rerun import Rerun
from stator.driver.steady import is_steady
from stator.driver.tracing import Captured
from stator.effects.instruction import Way
from stator.effects.suspension import Suspension
from stator.graph.passes.size_inputs import Sizes
from stator.graph.recording.arrays import Edges
from stator.guards import Guard
from stator.store.parts import Around, Artefact, Parts
from stator.store.reasons import Reason, Unstorable

if TYPE_CHECKING:
    from stator.capture import Trace


def around_of(
    trace: "Trace", sizes: Sizes, rerun: Rerun | None, *, views: bool
) -> Around | Unstorable:
    """What happens around a graph, or why it can't be stored."""
    if trace.of_process is not None:
        return Unstorable(Reason.PROCESS, trace.of_process)
    if trace.retry is not None:
        return Unstorable(Reason.VALUES, "values were taken for granted that the graph checks")
    scopes = None if trace.changes is None else trace.changes.scopes
    found = (
        (views, "inputs lie in one memory"),
        (scopes is not None and not scopes.of_grad, "the graph enters modes"),
        (trace.edges != Edges(), "inputs or outputs are no plain tensors"),
        (bool(trace.prologue), "something happens before the graph"),
        (trace.shows, "the graph shows texts"),
    )
    for there, what in found:
        if there:
            return Unstorable(Reason.AROUND, what)
    if rerun is None:
        return Around()
    return Around(sizes.reads, rerun.possible, rerun.draws, rerun.changed, grad=bool(scopes))


def _bare(found: Suspension) -> Suspension:
    """Where a program goes on, without the values that the trace had there."""
    step = found.step
    empty = replace(step, operands=(None,) * len(step.operands), way=Way(0, ()), other=None)
    return replace(found, values=(None,) * len(found.values), step=empty)


class Built(Protocol):
    """What the backend made of a graph."""

    @property
    def artefact(self) -> Artefact: ...
    @property
    def around(self) -> Around | Unstorable: ...
    @property
    def title(self) -> Title: ...
    @property
    def code(self) -> str | None: ...
    @property
    def operators(self) -> tuple[str, ...]: ...


def parts_of(found: Captured, guards: tuple[Guard, ...], built: Built) -> Parts | None:
    """The parts of an entry that calls what was captured."""
    trace = found.trace
    if trace.plan is None:
        return None
    broken: tuple[Any, ...] | None = None
    if found.error is not None:
        name, reason, hint, places, *rest = found.error.given
        broken = (name, reason, hint, [tuple(place) for place in places], *rest)
    return Parts(
        *(guards, trace.plan, tuple(trace.inputs), built.artefact, built.around),
        suspension=None if trace.suspension is None else _bare(trace.suspension),
        name=built.title.name,
        operators=built.operators,
        graph=built.code,
        broken=broken,
        steady=is_steady(trace),
        ranges=trace.ranges,
    )
