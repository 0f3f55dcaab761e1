"""The journal's account of compiles: which function, which compile of it, what came of it.

Stage: driver. In: what `announcements` hears from the compiler. Out: events (docs/report.md). A
compile is told when it is over; what is known earlier waits here. Called only when somebody
listens.
"""

import atexit
import dis
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

import torch.fx as fx

from stator.diagnostics import journal
from stator.diagnostics.blocks import block
from stator.diagnostics.breaks import CaptureError, Place
from stator.diagnostics.places import library
from stator.driver import records
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Recompile
from stator.driver.living import Living
from stator.driver.tally import Runs, Tally, Why

_TORCH: Final = "torch/"  # where its code is, inside of the libraries


@dataclass
class _Open:
    """A compile that is under way."""

    began: float
    traced: float = 0.0
    graph: records.Graph | None = None
    own: float = 0.0
    """Seconds spent on the journal."""


@dataclass(frozen=True)
class Use:
    """Of what was compiled."""

    chosen: int
    runs: Runs


@dataclass
class _Function:
    """What is known of a label."""

    number: int
    parent: int | None = None
    recompile: int | None = None
    """The one that is under way."""
    failed: int = 0
    """Calls in which a compile failed, and the error left."""
    declined: Counter[Why] = field(default_factory=Counter)
    """Calls for which nothing was compiled."""
    used: dict[int, Use] = field(default_factory=dict)
    """How often each compile was used whose entry is gone."""

    @property
    def runs(self) -> Runs:
        """Of all its calls."""
        eager = self.declined.total()
        made = Runs(calls=self.failed + eager, eager=Counter(self.declined))
        for use in self.used.values():
            made.add(use.runs)
        return made


_functions: Final[dict[Label, _Function]] = {}
_open: Final[dict[Label, _Open]] = {}
_numbers: Final = itertools.count(1)
_recompiles: Final = itertools.count(1)


# ---------------------------------------------------------------------- functions


def known(label: Label) -> int:
    """The number of a function, which is described when it is first mentioned."""
    found = _function(label)
    if journal.first_time(label):
        around = block(label.file, label.line)
        journal.write(
            "function",
            id=found.number,
            name=label.name,
            file=label.file,
            line=label.line,
            library=library(Place(label.file, label.line, label.name)),
            parent=found.parent,
            first=None if around is None else around.first,
            source=None if around is None else list(around.lines),
        )
    return found.number


def _function(label: Label) -> _Function:
    found = _functions.get(label)
    if found is None:
        found = _functions[label] = _Function(next(_numbers))
    return found


def continued(label: Label, by: Label) -> None:
    parent = known(label)
    found = _function(by)
    if found.parent is None and found.number != parent:
        found.parent = parent


def _describe(places: Sequence[Place]) -> None:
    """Tells the text of the functions that are around these places, torch's own left out."""
    for place in places:
        if library(place).startswith(_TORCH):
            continue
        found = block(place.file, place.line)
        if found is not None and journal.first_time((found.file, found.first)):
            journal.write(
                "source",
                file=found.file,
                first=found.first,
                name=found.name,
                library=library(place),
                lines=list(found.lines),
            )


# ---------------------------------------------------------------------- compiles


def began(label: Label) -> None:
    _open[label] = _Open(journal.now())
    journal.write("compile_begin", function=known(label))


def traced(label: Label, seconds: float) -> None:
    if (under_way := _open.get(label)) is not None:
        under_way.traced = seconds


def recorded(label: Label, module: fx.GraphModule) -> None:
    """The graph as it is before the backend, which may change it."""
    if (under_way := _open.get(label)) is not None:
        start = journal.now()
        under_way.graph = records.Graph(module)
        under_way.own += journal.now() - start


def compiled(label: Label, done: Compilation, effects: Sequence[str], residual: Any) -> None:
    ended = journal.now()
    under_way = _open.pop(label, None) or _Open(ended - done.trace_seconds - done.backend_seconds)
    found = _function(label)
    again, found.recompile = found.recompile, None
    graph = under_way.graph if done.graph is not None else None
    _describe([] if graph is None else graph.places)
    _describe([] if done.broken is None else done.broken.places)
    trace = done.trace_seconds or under_way.traced
    total = ended - under_way.began - under_way.own
    journal.write(
        "compile",
        number=done.number,
        function=known(label),
        recompile=again,
        outcome=_outcome(done),
        began=under_way.began,
        trace_seconds=trace,
        backend_seconds=done.backend_seconds,
        other_seconds=max(total - trace - done.backend_seconds, 0.0),
        ops=len(done.operators),
        graph=done.graph,
        nodes=[] if graph is None else graph.nodes,
        places=[] if graph is None else [records.place(each) for each in graph.places],
        guards=records.guards(done.guards),
        effects=list(effects),
        residual=done.residual,
        bytecode=dis.Bytecode(residual).dis() if isinstance(residual, FunctionType) else "",
        eager=done.eager,
        own=done.own,
        broken=None if done.broken is None else records.broken(done.broken),
    )
    done.kept.append(_Witness(done.tally, done.number, found))


def generated(label: Label, number: int, seconds: float) -> None:
    journal.write("generated", function=known(label), number=number, backend_seconds=seconds)


def _outcome(done: Compilation) -> str:
    if done.eager is not None:
        return "eager"
    return "graph" if done.graph is not None else "no graph"


def failed(label: Label, error: BaseException) -> None:
    """A compile that has come to nothing."""
    _function(label).failed += 1
    under_way = _open.pop(label, None)
    broken = records.broken(error) if isinstance(error, CaptureError) else None
    if isinstance(error, CaptureError):
        _describe(error.places)
    journal.write(
        "failure",
        function=known(label),
        began=journal.now() if under_way is None else under_way.began,
        error=type(error).__name__,
        text=str(error),
        broken=broken,
    )


def recompiled(why: Recompile) -> None:
    number = _function(why.label).recompile = next(_recompiles)
    journal.write(
        "recompile",
        number=number,
        function=known(why.label),
        failures=[records.misfit(each) for each in why.misfits],
        remedy=why.remedy,
    )


def declined(label: Label, why: Why) -> None:
    _function(label).declined[why] += 1


def suppressed(label: Label) -> None:
    """A compile that has failed; the call runs as it is, and is counted as such."""
    _function(label).failed -= 1


def forgotten() -> None:
    """All counting begins anew: what was used up to now has been."""
    for each in _witnesses:
        each.tell(last=True)
    journal.write("reset")


# ---------------------------------------------------------------------- the end


class _Witness:
    """Lives as long as what was compiled, and then knows how often that was used."""

    def __init__(self, tally: Tally, number: int, function: _Function) -> None:
        self.tally: Tally | None = tally
        self.number = number
        self.function = function
        _witnesses.add(self)

    def tell(self, *, last: bool = False) -> None:
        if self.tally is not None:
            self.function.used[self.number] = Use(self.tally.chosen, self.tally.runs)
        if last:
            self.tally = None

    def __del__(self) -> None:
        if Use is not None:  # as it is when Python takes modules apart, at its end
            self.tell()


_witnesses: Final[Living[_Witness]] = Living()


def ended() -> None:
    """How often what was compiled was used, up to now, and what ran as it is."""
    for each in _witnesses:
        each.tell()
    found = list(_functions.values())
    functions = [_calls(each) for each in found]
    entries = [
        {"number": number, "hits": use.chosen, "eager": use.runs.eager.total()}
        for each in found
        for number, use in each.used.items()
    ]
    journal.write("end", functions=functions, entries=entries)


def _calls(function: _Function) -> dict[str, Any]:
    runs = function.runs
    return {
        "function": function.number,
        "calls": runs.calls,
        "hits": runs.hits,
        "captured": runs.captured,
        "declined": runs.eager[Why.LIMIT],
        "eager": {why.value: count for why, count in runs.eager.items() if count},
    }


def _at_exit() -> None:
    if journal.on() and os.getpid() == _process:
        ended()


def _after_fork() -> None:
    """The child tells of itself: what was used before is the parent's."""
    _open.clear()
    for found in _functions.values():
        found.failed = 0
        found.declined.clear()
        found.used.clear()


_process: Final = os.getpid()
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
journal.follow_environment()
