"""How calls of compiled functions ran: what was compiled, and in spite of it the function itself.

Stage: driver. In: what the compiler decides, and what happens at run time in place of a graph. Out:
numbers, in which a call that ran as it is counts as neither a hit nor as captured. Hits are counted
by dispatch, in each entry; only the exceptions from that are counted here, so that a call costs
nothing more. For each compile there is a `Tally`, which outlives nothing; what it has counted is
added to the `Totals` of the process when it ends.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from stator._native._core import Entry
from stator.diagnostics.breaks import CaptureError, Place
from stator.diagnostics.places import users_own
from stator.driver.living import Living


class Why(Enum):
    """Why the function itself ran, and nothing that was compiled for it."""

    LIMIT = "a limit of recompiles was reached"
    STANCE = "the stance says so"
    STACK = "too little stack was left to compile"
    SUPPRESSED = "an error was suppressed"
    FAILED = "compiling it has failed too often"
    CHANGED = "another thread changed what was read"
    PATH = "the path can't be captured"
    REFUSED = "a check of the graph failed"
    RAISED = "the graph raised"


@dataclass
class Runs:
    """How often something ran, and how."""

    calls: int = 0
    hits: int = 0
    """Served by what had been compiled before."""
    captured: int = 0
    """Served by what was compiled for them or before."""
    eager: Counter[Why] = field(default_factory=Counter)

    def add(self, other: "Runs") -> None:
        self.calls += other.calls
        self.hits += other.hits
        self.captured += other.captured
        self.eager.update(other.eager)


class Tally:
    """Of one compile: the calls for which its entry was chosen, the one it was made for included.

    A call that is passed on (to a variant that takes nothing for granted) counts there.
    """

    def __init__(self, *, whole: bool, eager: bool = False) -> None:
        self.entries: list[Entry] = []
        """Those of the buckets that have it."""
        self._whole = whole  # its calls are calls of the function, not of what is behind a break
        self._eager = eager  # the entry is the function itself
        self._made = 1  # the call it was made for; the parent's, after a fork
        self._before = 0
        self._passed: Counter[bool] = Counter()  # by whether it was the first call
        self._instead: Counter[tuple[Why, bool]] = Counter()
        _tallies.add(self)

    @property
    def chosen(self) -> int:
        """How often dispatch has chosen it."""
        return sum(entry.hits for entry in self.entries) - self._before

    def passed_on(self) -> None:
        """Another variant serves this call."""
        self._passed[not self.chosen] += 1

    def ran_eagerly(self, why: Why) -> None:
        """The function itself ran in this call."""
        self._instead[why, not self.chosen] += 1

    @property
    def runs(self) -> Runs:
        chosen = self.chosen
        made = self._made if self.entries else 0  # the backend may have failed
        calls = made + chosen - self._passed.total()
        if self._eager:
            return Runs(calls, 0, 0, Counter({Why.PATH: calls}))
        eager: Counter[Why] = Counter()
        for (why, _), count in self._instead.items():
            eager[why] += count
        later = sum(count for (_, first), count in self._instead.items() if not first)
        hits = chosen - self._passed[False] - later
        return Runs(calls, hits, calls - eager.total(), eager)

    def start_anew(self) -> None:
        """In a process that was forked: what was before is the parent's."""
        self._before += self.chosen
        self._made = 0
        self._passed.clear()
        self._instead.clear()

    def __del__(self) -> None:
        if self._whole and TOTALS is not None:  # the process may be at its end
            TOTALS.gone.add(self.runs)


@dataclass
class Totals:
    """Of the process, since it began or since `stator.reset()`."""

    compiles: int = 0
    graphs: int = 0
    own: int = 0
    """Graphs that run by their own operators, since the backend would not be faster, or not yet."""
    operators: int = 0
    loaded: int = 0
    """Entries that another process had compiled."""
    recompiles: int = 0
    failures: int = 0
    limits: int = 0
    breaks: set[tuple[str, Place | None]] = field(default_factory=set)
    """Lines of the program where graphs end, and for which kind of reason."""
    reasons: Counter[str] = field(default_factory=Counter)
    """How many graphs end, for each reason."""
    gone: Runs = field(default_factory=Runs)
    """What has run without an entry, or whose entry is gone."""

    def compiled(self, operators: int | None) -> None:
        """An entry was made, with a graph of so many operators, or without one."""
        self.compiles += 1
        observed("frames", "total")
        observed("frames", "ok")
        if operators is not None:
            self.graphs += 1
            self.operators += operators
            observed("stats", "unique_graphs")
            observed("stats", "calls_captured", operators)

    def failed(self) -> None:
        """A compile has come to nothing."""
        self.failures += 1
        observed("frames", "total")

    def broke(self, error: CaptureError) -> None:
        """A graph ends where it should not."""
        self.breaks.add((error.id, users_own(error.places) if error.places else None))
        self.reasons[error.reason] += 1
        observed("graph_break", error.reason)

    @property
    def runs(self) -> Runs:
        made = Runs()
        made.add(self.gone)
        for each in _tallies:
            if each._whole:
                made.add(each.runs)
        return made

    def clear(self) -> None:
        """Counts from 0 again: what still lives counts what comes."""
        for each in _tallies:
            each.start_anew()
        self.__init__()  # type: ignore[misc]


observers: Final[list[Callable[[str, str, int], None]]] = []
"""Who else counts: they are told what torch.compile counts, by its names."""


def observed(section: str, name: str, count: int = 1) -> None:
    for each in observers:
        each(section, name, count)


_tallies: Final[Living[Tally]] = Living()
TOTALS: Final = Totals()
os.register_at_fork(after_in_child=TOTALS.clear)


def counters() -> dict[str, Any]:
    """What was compiled in this process, and how calls of compiled functions ran, in numbers.

    `unique_graphs` and their `operators`, and how many of them run by `torch_kernels`, since
    Inductor could not make them faster, or would take too long yet; `graph_breaks`, as places of
    the program, and for each reason how many graphs end there (`break_reasons`); `compiles`,
    what was `loaded` from the cache, `recompiles`, `failures`, `limits` that were reached. Of
    `calls` of compiled functions: `hits` were served by what had been compiled before, `captured`
    by that or by what was compiled for them, and `eager` ran as they are, by reason
    (`eager_reasons`). What is disabled, or runs under the stance "force_eager", is not counted.
    `stator.reset()` begins anew.
    """
    runs = TOTALS.runs
    return {
        "compiles": TOTALS.compiles,
        "loaded": TOTALS.loaded,
        "unique_graphs": TOTALS.graphs,
        "torch_kernels": TOTALS.own,
        "operators": TOTALS.operators,
        "graph_breaks": len(TOTALS.breaks),
        "break_reasons": dict(TOTALS.reasons),
        "recompiles": TOTALS.recompiles,
        "failures": TOTALS.failures,
        "limits": TOTALS.limits,
        "calls": runs.calls,
        "hits": runs.hits,
        "captured": runs.captured,
        "eager": runs.eager.total(),
        "eager_reasons": {why.value: count for why, count in runs.eager.items() if count},
    }
