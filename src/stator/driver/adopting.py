"""From what the cache has served to a compiler that goes on from there.

Stage: driver. In: a `Start`, with entries in a bucket. Out: the `Compiler` of that bucket, whose
ledger knows these entries; and what is done about errors in their graphs.
"""

from collections.abc import Callable
from typing import Any

from stator._native._core import CompiledFunction
from stator.capture.trace.task import Trust
from stator.diagnostics.artefacts import Title
from stator.driver import profiling
from stator.driver.announcements import Instead
from stator.driver.cached import compilation
from stator.driver.compiler import Compiler
from stator.driver.failures import Failures
from stator.driver.forking import expect_traces
from stator.driver.label import Label
from stator.driver.ledger import own_ledger, shared_ledger
from stator.driver.rerun import Rerun
from stator.driver.starting import Start
from stator.driver.tally import Tally
from stator.store import entry
from stator.store.parts import Around


def adopted(start: Start, compiled: CompiledFunction) -> Compiler:
    """The compiler that takes over."""
    expect_traces()
    options, label, code = start.options, start.label, compiled.bucket.code
    ledger = own_ledger(code, options, compiled.bucket)
    shared = shared_ledger(code, options) if start.own else None
    made = Compiler(options, label, ledger, shared, start.points, Trust.SEEN)
    for each in start.served:
        tally = Tally(whole=not label.units)
        tally.entries.append(each.entry)
        loaded = each.found.loaded
        title = Title.of(label.name, each.number)
        profiling.note(each.residual.function, each.residual.graph, (title.graph, *loaded.ranges))
        done = compilation(each.found, each.entry, label, each.residual, each.number, tally)
        ledger.from_cache.add(each.found.name)
        ledger.compiles += 1
        ledger.add(done)
    for known in start.continuations.values():
        miss = known.miss
        if type(miss) is Start and miss is not start:
            ledger.continuations.put(miss.points, known)
    return made


def failures(title: Title, label: Label, possible: bool) -> Failures:
    """What is done when the graph of an entry raises that was loaded without the compiler."""
    tally = Tally(whole=False)
    rerun = Rerun(label, Instead(label, tally), possible=possible, draws=False)
    return Failures(title, {}, rerun)


def watched(
    graph: Callable[..., Any], title: Title, label: Label, around: Around
) -> tuple[Callable[..., Any], Failures]:
    """A graph that draws or changes inputs, with what undoes that if it raises; and the same."""
    told = Instead(label, Tally(whole=False))
    given = {"possible": around.rerun, "draws": around.draws}
    rerun = Rerun(label, told, **given, changed=around.changed)
    return rerun.around(entry.around(graph, around)), Failures(title, {}, rerun)
