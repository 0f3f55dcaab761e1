"""The summary of a run: functions, graphs, breaks, recompiles, times, hit rate.

In: the events of the run. Out: a `Summary`, and its text: a table on a terminal, plain lines
elsewhere. Both go to standard error, since standard output is the program's.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stator.cli import screen
from stator.diagnostics.journal import Event

_MOST: Final = 5  # places, and functions that were compiled again, that are shown


@dataclass(frozen=True)
class Split:
    """A place where graphs end, for one kind of reason: the first one, in its words."""

    place: str
    reason: str = field(compare=False)
    id: str
    hint: str = field(compare=False)


@dataclass
class Summary:
    """What was compiled in a run, in numbers."""

    processes: int = 0
    """In how many of them something was compiled."""
    functions: int = 0
    graphs: int = 0
    operators: int = 0
    own: int = 0
    """Graphs that run by torch's own kernels, since Inductor could not make them faster."""
    eager: int = 0
    """Paths that run as they are, as a whole."""
    failures: int = 0
    breaks: Counter[Split] = field(default_factory=Counter)
    """How many graphs end at each place."""
    causes: set[Split] = field(default_factory=set)
    """Those of them that need no other graph break before: what is behind one may be its result."""
    recompiles: Counter[str] = field(default_factory=Counter)
    """Of each function."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The last guard that failed, for each of these functions."""
    limits: int = 0
    trace_seconds: float = 0.0
    backend_seconds: float = 0.0
    other_seconds: float = 0.0
    hits: int = 0
    """Calls that compiled code has served."""
    misses: int = 0
    eager_calls: Counter[str] = field(default_factory=Counter)
    """Calls that ran as they are, by reason."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Summary":
        return _Adding().all(events)

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.backend_seconds + self.other_seconds

    @property
    def rate(self) -> float | None:
        """Which part of the calls was served; None if there were none."""
        calls = self.hits + self.misses
        return self.hits / calls if calls else None

    def rows(self) -> Iterator[tuple[str, str]]:
        """What there is to say, as names and values."""
        if self.processes > 1:
            yield "processes", str(self.processes)
        yield "functions", str(self.functions)
        yield "graphs", f"{self.graphs} ({_many(self.operators, 'operator')})"
        if self.own:
            yield "not generated", f"{_many(self.own, 'graph')}: Inductor would not pay"
        places = len(self.breaks)
        yield "graph breaks", str(places) if places else "none"
        yield "recompiles", str(self.recompiles.total()) if self.recompiles else "none"
        if self.eager:
            yield "not captured", _many(self.eager, "path")
        if self.failures:
            yield "failed", _many(self.failures, "compile")
        if self.limits:
            yield "limits reached", str(self.limits)
        parts = f"{_time(self.trace_seconds)} tracing, {_time(self.backend_seconds)} backend"
        yield "compile time", f"{_time(self.seconds)} ({parts})"
        if self.rate is not None:
            calls = _many(self.hits + self.misses, "call")
            yield "hit rate", f"{100 * self.rate:.1f} % of {calls}"
        if self.eager_calls:
            yield "ran eagerly", _many(self.eager_calls.total(), "call")

    def ranked(self) -> list[tuple[Split, int]]:
        """Where it breaks, and how often: causes first, and then what is behind other breaks."""
        return sorted(self.breaks.items(), key=lambda each: (each[0] not in self.causes, -each[1]))

    def places(self) -> Iterator[str]:
        """Where it breaks most, and why."""
        for split, count in self.ranked()[:_MOST]:
            often = f" ({count} graphs end here)" if count > 1 else ""
            yield f"{split.place}: {split.reason} [{split.id}]{often}"
        if len(self.breaks) > _MOST:
            yield f"… and {len(self.breaks) - _MOST} more places"

    def again(self) -> Iterator[str]:
        """What was compiled again, and why the last time."""
        for name, count in self.recompiles.most_common(_MOST):
            yield f"{name}, {count}×: {self.reasons[name]}"
        if len(self.recompiles) > _MOST:
            yield f"… and {len(self.recompiles) - _MOST} more functions"

    def eagerly(self) -> Iterator[str]:
        """Why calls ran as they are, the most frequent reason first."""
        for why, count in self.eager_calls.most_common():
            yield f"{_many(count, 'call')}: {why}"

    def advice(self) -> Iterator[str]:
        """What to do next."""
        for split, _ in self.ranked():
            if split.id:
                yield f"`stator why {split.id}` explains the reason and shows a fix"
                return


class _Adding:
    """Reads events one by one. Numbers of functions and compiles are those of one process."""

    def __init__(self) -> None:
        self._summary = Summary()
        self._names: dict[Any, str] = {}
        self._roots: set[Any] = set()
        self._uncaptured: set[Any] = set()
        self._compiles: defaultdict[Any, int] = defaultdict(int)
        self._calls: dict[Any, _Calls] = {}  # of each process, as its last end tells it

    def all(self, events: Iterable[Event]) -> Summary:
        total = self._summary
        for event in events:
            handle = getattr(self, f"_{event['kind']}", None)
            if handle is not None:
                handle(event)
        roots = self._roots & self._compiles.keys()
        processes = {process for process, _ in self._compiles}
        total.processes = len(processes)
        # Processes run the same program: one function in each of them is one.
        named = {self._names[root] for root in roots}
        total.functions = len(roots if total.processes == 1 else named)
        for process in processes:
            calls = self._calls.pop(process, None)
            if calls is None or calls.misses is None:  # older traces don't tell
                own = (root for root in self._roots if root[0] == process)
                total.misses += sum(self._compiles[root] for root in own)
            self._add(calls)
        for calls in self._calls.values():
            self._add(calls)
        return total

    def _add(self, calls: "_Calls | None") -> None:
        if calls is not None:
            self._summary.hits += calls.hits
            self._summary.misses += calls.misses or 0
            self._summary.misses += calls.declined
            self._summary.eager_calls.update(calls.eager)

    def _function(self, event: Event) -> None:
        key = _key(event, "id")
        self._names[key] = f"{event['name']} ({_short(event['file'])}:{event['line']})"
        if event["parent"] is None:
            self._roots.add(key)

    def _compile(self, event: Event) -> None:
        total = self._summary
        self._compiles[_key(event, "function")] += 1
        total.trace_seconds += event["trace_seconds"]
        total.backend_seconds += event["backend_seconds"]
        total.other_seconds += event["other_seconds"]
        total.operators += event["ops"]
        total.graphs += event["outcome"] == "graph"
        total.own += event.get("own") is not None  # older traces don't tell
        if event["outcome"] == "eager":
            total.eager += 1
            self._uncaptured.add(_key(event, "number"))
        broken = event["broken"]
        if broken is not None and not broken.get("of_a_split"):  # which another one has led to
            self._broke(event)

    def _generated(self, event: Event) -> None:
        self._summary.own -= 1
        self._summary.backend_seconds += event["backend_seconds"]

    def _broke(self, event: Event) -> None:
        split = _split(event["broken"])
        self._summary.breaks[split] += 1
        if _key(event, "function") in self._roots:
            self._summary.causes.add(split)

    def _failure(self, event: Event) -> None:
        self._compiles[_key(event, "function")] += 1
        self._summary.failures += 1
        if event["broken"] is not None:
            self._broke(event)

    def _recompile(self, event: Event) -> None:
        name = self._names.get(_key(event, "function"), "a function")
        self._summary.recompiles[name] += 1
        texts = [each["text"] for each in event["failures"]]
        self._summary.reasons[name] = texts[-1] if texts else "no entry fits"

    def _limit(self, event: Event) -> None:
        self._summary.limits += 1

    def _end(self, event: Event) -> None:
        """The last one of a process tells of all that was before."""
        process = event.get("pid")
        functions = [
            each for each in event["functions"] if (process, each["function"]) in self._roots
        ]
        if any("calls" in each for each in functions):
            eager: Counter[str] = Counter()
            for each in functions:
                eager.update(each["eager"])
            hits = sum(each["hits"] for each in functions)
            misses = sum(each["calls"] for each in functions) - hits
            self._calls[process] = _Calls(hits, misses, 0, eager)
            return
        hits = sum(each["hits"] for each in functions)
        declined = sum(each["declined"] for each in functions)
        as_they_are = sum(
            each["hits"]
            for each in event["entries"]
            if (process, each["number"]) in self._uncaptured
        )
        as_they_are = min(as_they_are, hits)
        self._calls[process] = _Calls(hits - as_they_are, None, declined + as_they_are, Counter())


@dataclass(frozen=True)
class _Calls:
    """How calls went in one process."""

    hits: int
    misses: int | None
    declined: int
    eager: Counter[str]


def _key(event: Event, name: str) -> tuple[Any, Any]:
    return event.get("pid"), event[name]


def _split(broken: Event) -> Split:
    stack = broken["stack"]
    place = "somewhere"
    if stack:
        own = [each for each in stack if not each["library"]]
        inner = (own or stack)[-1]  # the program's own line says more than a library's
        place = f"{_short(inner['file'])}:{inner['line']} in {inner['function']}"
    return Split(place, broken["reason"].splitlines()[0], broken["id"], broken["hint"])


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


# ---------------------------------------------------------------------- showing


def show(events: Iterable[Event]) -> None:
    """The summary, on standard error."""
    summary = Summary.of(events)
    if summary.functions and screen.is_terminal(sys.stderr):
        screen.table("stator", summary.rows(), _lists(summary), file=sys.stderr)
    else:
        print("\n".join(lines(summary)), file=sys.stderr)


def lines(summary: Summary) -> Iterator[str]:
    """The summary as plain text."""
    if not summary.functions:
        yield "stator: nothing was compiled"
        return
    yield "stator:"
    yield from (f"  {name:<14} {value}" for name, value in summary.rows())
    for title, entries in _lists(summary):
        yield f"  {title}"
        yield from (f"    {entry}" for entry in entries)


def _lists(summary: Summary) -> list[tuple[str, list[str]]]:
    found = [
        ("breaks", list(summary.places())),
        ("compiled again", list(summary.again())),
        ("ran eagerly", list(summary.eagerly())),
        ("next", list(summary.advice())),
    ]
    return [(title, entries) for title, entries in found if entries]
