"""From a call to the trace that is compiled.

Stage: driver. In: a call, and what is known of the calls before it. Out: `Captured`, a trace of all
of it, or of the part before what can't be captured. Where one trace does not do, the call is traced
again: with fewer sizes and numbers left open, with nothing taken for granted, or up to where it was
broken off.
"""

import contextlib
import dataclasses
import gc
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from stator.bytecode import decode
from stator.capture import CaptureError, Trace
from stator.capture.library.garbage_collection import COLLECTOR
from stator.capture.trace.restart import split
from stator.capture.trace.task import Task, Trust
from stator.capture.trace.trace import failure, trace
from stator.capture.trace.wanted import Wanted
from stator.diagnostics.breaks import Break, Failed, Place
from stator.diagnostics.catalogue import (
    BranchOnValues,
    FunctionDisabled,
    GraphBreakAsked,
    LoopUnrolled,
    SkipAsked,
)
from stator.driver import announcements, passed_on
from stator.driver.continuations import LIMIT
from stator.driver.dynamics import Dynamics
from stator.driver.label import Label
from stator.driver.ledger import Ledger
from stator.driver.libraries import load_library
from stator.driver.options import Options

_TESTS: Final = ("POP_JUMP", "JUMP_IF", "TO_BOOL")


class _Tracing(threading.local):
    """Whether this thread is tracing: what is called meanwhile is not compiled."""

    now = False


TRACING: Final = _Tracing()


@dataclasses.dataclass(frozen=True, eq=False)
class Captured:
    """What was captured of a call."""

    task: Task
    """As it was traced last."""
    trace: Trace
    """If this is broken off itself, nothing was captured."""
    error: CaptureError | None
    """Why it is not all of the call."""
    seconds: float
    failed: Failed | None = None
    """A failure of ours, around which this was captured."""


def captured(task: Task, label: Label, options: Options, ledger: Ledger) -> Captured:
    """Traces a call, until there is something to compile, or it is clear that there is nothing.

    Raises why not, if there is to be one graph, or if the program forbids breaks where it breaks.
    """
    began = time.perf_counter()
    COLLECTOR.begin()
    watch = announcements.Watch(label)
    task, whole, failed = _opened(task, label, options, ledger.dynamics)
    if isinstance(whole.broken, LoopUnrolled) and not options.fullgraph:
        whole = _traced(task, options)  # again, up to the first iteration
    shapes = whole.shapes
    ledger.dynamics.in_use = shapes is not None and shapes.in_use
    part = None
    may_split = not options.fullgraph or _is_dispatch(task, whole)
    if whole.broken is not None and whole.speculated and may_split:
        part = _split_as_seen(task, whole)
        if part is None and not options.fullgraph:
            task = dataclasses.replace(task, trust=Trust.NOTHING)
            whole = _traced(task, options)
    if whole.broken is None:
        task, whole = _passing_on(task, whole, options, ledger.dynamics)
    watch.traced(whole, time.perf_counter() - began)
    if whole.broken is None:
        return Captured(task, whole, None, time.perf_counter() - began, failed)
    if isinstance(whole.broken, Failed):
        if options.fullgraph:
            raise failure(str(label), whole.broken)
        failed = whole.broken
        failed.error = None
    # Raised without a name here: this frame, with the arguments, is in its traceback.
    if whole.broken.refuses:
        raise CaptureError.of(label.name, whole.broken)
    if not may_split:
        if task.trust is Trust.SEEN:
            raise CaptureError.of(label.name, whole.broken)
        error = CaptureError.of(label.name, whole.broken)
        return Captured(task, whole, error, time.perf_counter() - began, failed)
    if whole.error:
        raise _unwanted(label, whole.broken)
    error = CaptureError.of(label.name, whole.broken)
    splits = part is None and not whole.broken.whole
    if splits and len(ledger.continuations) < LIMIT:
        part = _split(task, whole)
    announcements.broke(error, eager=part is None)
    if part is None:
        return Captured(task, whole, error, time.perf_counter() - began, failed)
    task, part = _passing_on(task, part, options, ledger.dynamics)
    watch.traced(part, time.perf_counter() - began, "split")
    return Captured(task, part, error, time.perf_counter() - began, failed)


def _opened(
    task: Task, label: Label, options: Options, dynamics: Dynamics
) -> tuple[Task, Trace, Failed | None]:
    """The trace with sizes left open; if more can be captured when they are not, then so.

    And the failure of ours because of which they are not. What the user insists on is left open,
    unless we fail on it.
    """
    task, trace = _with_strings(task, label, options, dynamics)
    broken = trace.broken
    failed = broken if isinstance(broken, Failed) else None
    if broken is None or broken.asked or not trace.shapes:
        return task, trace, None
    if trace.shapes.marked and failed is None:
        return task, trace, None
    plain = dataclasses.replace(task, wanted=Wanted(never=True))
    other = _traced(plain, options)
    if other.broken is not None and other.broken.places == broken.places:
        return task, trace, None
    dynamics.closed = True
    announcements.closed(label, broken.reason)
    if failed is not None:
        failed.error = None
    return plain, other, failed


def _with_strings(
    task: Task, label: Label, options: Options, dynamics: Dynamics
) -> tuple[Task, Trace]:
    """The trace with strings left open that the program only passes on, and numbers of hooks."""
    while True:
        held, (task, trace) = task, _with_floats(task, label, options, dynamics)
        wanted = task.wanted
        unknown = wanted.held | wanted.hooks
        if not unknown or (trace.raised is None and _is_as_asked(trace)):
            return task, trace
        looked = trace.looked or unknown
        left = wanted.held - looked, wanted.hooks - looked
        plain = dataclasses.replace(wanted, held=left[0], hooks=left[1])
        task = dataclasses.replace(task, wanted=plain)
        if not trace.looked:  # it has nothing to do with strings if it ends in the same way
            held = dataclasses.replace(held, wanted=wanted)
            task, other = _with_floats(task, label, options, dynamics)
            if other.raised is None and trace.raised is None and _places(other) == _places(trace):
                return held, trace
            dynamics.looked |= looked
            return task, other
        dynamics.looked |= looked


def _passing_on(
    task: Task, first: Trace, options: Options, dynamics: Dynamics
) -> tuple[Task, Trace]:
    """The trace with strings and numbers left open that the program only passes on."""
    found = passed_on.candidates(task, first)
    for text in dynamics.used & found.keys():
        del found[text]
    limit = sys.maxsize if first.suspension is None else first.steps
    for _ in range(passed_on.ATTEMPTS if found else 0):
        opened = passed_on.opened(task, found)
        other = _traced(opened, options, limit)
        used = passed_on.used(other, found)
        if not used and passed_on.same_end(first, other):
            return opened, other
        dynamics.used |= used
        found = {text: kind for text, kind in found.items() if text not in used}
        if not used or not found:
            break
    dynamics.used |= found.keys()
    return task, first


def _is_as_asked(trace: Trace) -> bool:
    """Whether a trace has come to its end, or to where the program wants it to be split."""
    asked = (GraphBreakAsked, FunctionDisabled, SkipAsked)
    return trace.broken is None or isinstance(trace.broken, asked)


def _with_floats(
    task: Task, label: Label, options: Options, dynamics: Dynamics
) -> tuple[Task, Trace]:
    """The trace with floats left open, if the program decides nothing by them."""
    trace = _traced(task, options)
    floats = trace.shapes is not None and trace.shapes.floats
    if not floats or (trace.broken is None and not trace.speculated):
        return task, trace
    wanted = dataclasses.replace(task.wanted, floats=frozenset())
    plain = dataclasses.replace(task, wanted=wanted)
    other = _traced(plain, options)
    if other.speculated == trace.speculated and _places(other) == _places(trace):
        return task, trace
    dynamics.fixed_floats = True
    announcements.closed(label, "the program decides something by one", "no float")
    return plain, other


def _traced(task: Task, options: Options, limit: int = sys.maxsize) -> Trace:
    while True:
        with _now_tracing():
            found = trace(task, limit)
        if found.regions and found.broken is not None and not found.broken.refuses:
            announcements.inlined(task, found)
            task.inlined.update(found.regions)
            continue
        if not load_library(found) and not COLLECTOR.provide():
            return found


def _split_as_seen(task: Task, first: Trace) -> Trace | None:
    """A split of a trace that takes values for granted, if it is right where it broke."""
    assert first.broken is not None
    if first.broken.instruction is None or first.broken.whole:
        return None
    with _now_tracing():
        found = trace(task, first.steps)
    return found if found.suspension is not None else None


def _split(task: Task, first: Trace) -> Trace | None:
    with _now_tracing():
        return split(task, first)


@contextlib.contextmanager
def _now_tracing() -> Iterator[None]:
    collects = COLLECTOR.enabled = gc.isenabled()
    try:
        gc.disable()  # the program's finalizers would run in the middle, on fake tensors
        TRACING.now = True
        yield
    finally:
        TRACING.now = False
        if collects:
            gc.enable()
        announcements.stepped()


def _is_dispatch(task: Task, trace: Trace) -> bool:
    """Whether nothing but a jump is between two graphs, for calls that go either way.

    Even if there is to be one graph, there is one for each side then, behind the common part.
    """
    broken = trace.broken
    if task.trust is Trust.SEEN or type(broken) is not BranchOnValues or broken.whole:
        return False
    if broken.instruction is None:
        return False
    code, unit = broken.instruction
    decoded = decode(code)
    found = next(each for each in decoded.instructions if each.unit == unit)
    return found.name.startswith(_TESTS)


def _places(trace: Trace) -> tuple[Place, ...] | None:
    """Where a trace was broken off."""
    return None if trace.broken is None else trace.broken.places


def _unwanted(label: Label, broken: Break) -> CaptureError:
    error = CaptureError.of(label.name, broken)
    error.add_note("error_on_graph_break(True) holds where the graph would be split.")
    return error
