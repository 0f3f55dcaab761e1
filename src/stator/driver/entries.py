"""From a trace to an installed entry.

Stage: driver. In: what was captured of a call. Out: a `Compilation`: an entry in the bucket of the
function, and where it comes from. The steps pass on what they made: the backend makes `Built` of
the graph, `Target` is what the entry calls, and the guards decide when it is called. A path that
was not captured gets an entry, too, which calls the function itself.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

from stator import guards
from stator._native._core import Entry, GuardTree
from stator.backends import BackendError
from stator.capture import CaptureError, Trace
from stator.capture.library.garbage_collection import collects
from stator.capture.numbers.assumptions import UnknownSymbolError
from stator.diagnostics import progress
from stator.diagnostics.artefacts import Title
from stator.driver import announcements, profiling, same_graph
from stator.driver.announcements import Instead
from stator.driver.attempts import Second, at_most, attempting
from stator.driver.backend import compile_recorded
from stator.driver.errors import SpecializedError
from stator.driver.failures import Failures
from stator.driver.fallback import is_plain, unbinding
from stator.driver.grad_mode_inside import changes_with_grad
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Ledger
from stator.driver.naming import name_graph
from stator.driver.numbers import NUMBERS
from stator.driver.numbers_only import only_numbers
from stator.driver.options import Options
from stator.driver.rerun import Rerun
from stator.driver.steady import is_steady
from stator.driver.storing import around_of, parts_of
from stator.driver.tally import Tally
from stator.driver.tracing import Captured
from stator.emit import residual
from stator.emit.ending import Ending
from stator.graph.passes.retry import Refused
from stator.graph.passes.size_inputs import Sizes, with_sizes
from stator.graph.recording import shown
from stator.guards import Guard, Source
from stator.store.parts import NOTHING, Around, Artefact
from stator.store.reasons import Unstorable

_EAGERLY: Final = 2  # calls that return, where there is to be one graph


class ChangedError(AssertionError):
    """What was true when a call was traced is not true any more; or it is a bug of ours."""


@dataclass(frozen=True, eq=False)
class Built:
    """What the backend made of a graph, if there is one."""

    title: Title
    graph: Callable[..., Any] | None
    """What the residual function calls with the inputs of the trace."""
    code: str | None = None
    """The graph as Python code, before the backend got it."""
    operators: tuple[str, ...] = ()
    failed: Failures | None = None
    """What to do when the graph raises."""
    seconds: float = 0.0
    uncompiled: BackendError | None = None
    """Why the graph runs as it is."""
    own: str | None = None
    """Why it does on purpose: the backend could not make it faster."""
    tally: Tally = field(default_factory=lambda: Tally(whole=False))
    """Counts the calls."""
    kept: list[Any] = field(default_factory=list)
    """What lives as long as the entry."""
    artefact: Artefact = None
    """What can be stored of the graph, or why nothing can."""
    around: Around | Unstorable = NOTHING
    """What happens around it."""


@dataclass(frozen=True, eq=False)
class Target:
    """What an entry calls."""

    call: Callable[..., Any]
    sources: tuple[Source, ...]
    """What it gets in front of the parameters, fetched with the guards."""
    tails: bool
    """It returns what is to be called next."""
    residual: FunctionType
    """What it calls itself, or is."""
    text: str
    """That, as Python code."""


def build(
    trace: Trace,
    label: Label,
    options: Options,
    *,
    may_fail: bool = False,
    may_split: bool = False,
    once: str | None = None,
    before: Iterable[Compilation] = (),
) -> Built:
    """Has the graph of a trace compiled. If it `may_fail`, the graph may run as it is instead.

    If the program `may_split`, it is not: what the backend fails on is to be outside of graphs.
    `once` says why the graph will not run again, if so: then Inductor is not asked. `before` is
    what was compiled for other calls, maybe the same graph.
    """
    title = Title.of(label.name, next(NUMBERS))
    prologue, retry, recorded = trace.prologue, trace.retry, trace.recorded
    tally = Tally(whole=not label.units)
    if recorded is None:
        graph = prologue.around(None, retry=retry is not None)
        about = around_of(trace, Sizes(), None, views=False)
        return Built(title, graph, tally=tally, around=about)
    rerun = Rerun.of(label, trace, Instead(label, tally), options.backend)
    recorded, views = trace.shared.lowered(recorded)  # from here on, the graph has other inputs
    recorded, sizes = with_sizes(recorded) if options.backend != "eager" else (recorded, Sizes())
    code = recorded.module.code
    called = announcements.operators(recorded.module)
    announcements.recorded(label, recorded.module)
    began = time.perf_counter()
    compiled = [thing for each in before for thing in each.kept]
    seen = same_graph.fingerprint(recorded) if same_graph.has_numbers_of_hooks(trace) else None
    known = None if seen is None else same_graph.made_before(seen, compiled)
    uncompiled: list[BackendError] = []

    def given_up(error: BackendError) -> bool:
        if may_fail:
            uncompiled.append(error)
        return may_fail

    if known is None:
        lines = name_graph(recorded.module, title)
        own = only_numbers(trace) or changes_with_grad(recorded)
        ready = compile_recorded(
            recorded, options, title, label, given_up, may_split=may_split, once=once, own=own
        )
        if seen is not None and not uncompiled:
            known = same_graph.Made(seen, ready, title, lines)
    else:
        ready, lines = known.ready, known.lines
    failed = Failures(title if known is None else known.title, lines, rerun)
    seconds = time.perf_counter() - began
    graph = trace.shared.around(sizes.around(ready.call), views)
    assert trace.changes is not None
    graph = trace.changes.scopes.around(graph)
    if retry is None or retry.checks is not None:  # which are made before: the graph may raise
        graph = rerun.around(graph)
    if retry is not None:
        graph = retry.around(graph)
    graph = trace.edges.around(graph)
    graph = prologue.around(graph, retry=retry is not None)
    if trace.shows:
        graph = shown.around(graph, lambda error: type(error) is Refused or rerun.applies(error))
    why = uncompiled[0] if uncompiled else None
    kept = [] if known is None else [known]
    about = around_of(trace, sizes, rerun, views=views is not None)
    return Built(
        *(title, graph, code, called, failed, seconds, why, ready.own, tally, kept),
        artefact=ready.artefact,
        around=about,
    )


def assemble(
    found: Captured,
    built: Built,
    label: Label,
    ending: Ending | None,
    second: Second | None,
) -> Target:
    """The residual function of a trace, with the second one behind it if its graph may refuse."""
    task, trace = found.task, found.trace
    assert trace.plan is not None
    function, title = task.function, built.title
    why = None if found.error is None else found.error.reason
    made = residual(
        trace.plan,
        code=function.__code__,
        inputs=trace.inputs if built.graph is not None else (),
        graph=built.graph,
        name=title.name,
        ending=ending,
        namespace=task.points[0].globals if task.points else function.__globals__,
        number=title.number,
        about=title.about(label, built.operators, why),
        failed=built.failed,
    )
    profiling.note(made.function, made.graph, (title.graph, *trace.ranges))
    tails = ending is not None
    if trace.retry is None:
        return Target(made.target, made.sources, tails, made.function, made.text)
    fetches = bool(made.sources)
    instead = Instead(label, built.tally)
    code = function.__code__
    question = trace.retry.question
    call = attempting(made.function, code, second, instead, question, fetches=fetches, tails=tails)
    return Target(call, (*made.sources, guards.FUNCTION), True, made.function, made.text)


def install(
    found: Captured, built: Built, target: Target, label: Label, ledger: Ledger
) -> Compilation:
    """An entry that calls the target, under the guards of the trace. They hold for its call."""
    kept = found.trace.all_guards()
    announcements.decided(label, found.trace.shapes)
    _check_marks(found.trace, label)
    entry = ledger.bucket.add(
        _checked_tree(found, kept, target.sources),
        target.call,
        fetch=bool(target.sources),
        tails=target.tails,
        steady=is_steady(found.trace),
    )
    built.tally.entries.append(entry)
    return Compilation(
        entry,
        label,
        kept,
        built.code,
        target.text,
        broken=found.error,
        operators=built.operators,
        trace_seconds=found.seconds,
        backend_seconds=built.seconds,
        number=built.title.number,
        tally=built.tally,
        own=built.own,
        kept=built.kept,
        parts=parts_of(found, kept, built),
        sources=target.sources,
    )


def install_original(found: Captured, reason: str, label: Label, ledger: Ledger) -> Compilation:
    """An entry that calls the function itself, under the guards that say which path it is."""
    function = found.task.function
    kept = found.trace.all_guards()
    announcements.decided(label, found.trace.shapes)
    if is_plain(function):
        entry = ledger.bucket.add(guards.compile(kept), function)
    else:
        tree = guards.compile(kept, outputs=(guards.FUNCTION,))
        entry = ledger.bucket.add(tree, unbinding(function.__code__), fetch=True)
    return _eager(entry, label, kept, reason, found.error)


def install_twice(
    found: Captured, error: CaptureError, told: Callable[[], None], label: Label, ledger: Ledger
) -> Compilation:
    """An entry that calls the function itself, until it has returned twice; then it raises."""
    kept = found.trace.all_guards()
    tree = guards.compile(kept, outputs=(guards.FUNCTION,))
    call_bound = unbinding(found.task.function.__code__)
    target = at_most(_EAGERLY, call_bound, error, told)
    entry = ledger.bucket.add(tree, target, fetch=True)
    return _eager(entry, label, kept, error.reason, error)


def _eager(
    entry: Entry, label: Label, kept: tuple[Guard, ...], why: str, error: CaptureError | None
) -> Compilation:
    """Of an entry that calls the function itself."""
    tally = Tally(whole=not label.units, eager=True)
    tally.entries.append(entry)
    return Compilation(entry, label, kept, None, "", eager=why, broken=error, tally=tally)


def _check_marks(trace: Trace, label: Label) -> None:
    """What the user has marked as dynamic must be so."""
    broken = [] if trace.shapes is None else trace.shapes.assumed.broken_marks()
    if broken:
        raise SpecializedError(label, broken)


def _checked_tree(
    found: Captured, kept: tuple[Guard, ...], sources: tuple[Source, ...]
) -> GuardTree:
    """The guards, compiled; they must hold for the call they were made from."""
    progress.stage("guards")
    tree = guards.compile(kept, outputs=sources)
    bound, function = tuple(found.task.bound), found.task.function
    if not (tree.check(bound, function) or (collects(kept) and tree.check(bound, function))):
        shapes = found.trace.shapes
        if shapes is not None and shapes.unbacked:
            raise UnknownSymbolError("the usual is assumed, which is otherwise in this call")
        failure = tree.explain(bound, function)
        raise ChangedError(f"a guard fails on the call it was made from: {failure}")
    return tree
