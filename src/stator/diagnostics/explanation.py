"""What `stator.explain` answers: the parts of a program, where it was split, and why.

Stage: diagnostics. In: what the driver has noted while compiling, as text. Out: an object to look
at or to print. It keeps nothing of the program alive but the result of the call.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stator.diagnostics import explained
from stator.diagnostics.breaks import CaptureError
from stator.diagnostics.places import Place, shown, source_line, users_own
from stator.report import build

_WAITING: Final = "stack["  # how values are called that a frame has on its stack


def is_of_a_split(source: str) -> bool:
    """Whether the object to blame is one that a frame had on its stack when it was split."""
    return source.startswith(_WAITING)


@dataclass(frozen=True)
class GraphBreak:
    """One place where the program could not be captured."""

    reason: str
    hint: str
    """What to change; empty if nothing is known."""
    stack: tuple[Place, ...]
    """The user's frames, the innermost last."""
    id: str = ""
    """The kind of reason, by its number in the catalogue."""
    title: str = ""
    source: str = ""
    """How the program reaches the object that is to blame, if there is one."""

    @classmethod
    def of(cls, error: CaptureError) -> "GraphBreak":
        return cls(error.reason, error.hint, error.places, error.id, error.title, error.source)

    @property
    def place(self) -> Place | None:
        """The user's own line, if there is one: what it calls in libraries is in `stack`."""
        return users_own(self.stack) if self.stack else None

    @property
    def identity(self) -> object:
        """The same for the same line of the user's and kind of reason.

        However the line was reached, and whatever a library does there, the program has one break.
        """
        if not self.id or not self.stack:
            return self.reason, self.stack
        return self.id, users_own(self.stack)

    @property
    def is_of_a_split(self) -> bool:
        """Behind a split: it is about what a frame was about to use, such as a loop's iterator."""
        return is_of_a_split(self.source)

    @property
    def line(self) -> str:
        """The line of the program."""
        return source_line(users_own(self.stack)).strip() if self.stack else ""

    def lines(self) -> Iterator[str]:
        yield self.reason
        yield from (f"  {line}" for line in shown(self.stack))
        if self.source:
            yield f"  the object is {self.source}"
        if self.hint:
            yield f"  fix: {self.hint}"
        if self.id:
            yield f"  [{self.id}] {self.title}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True)
class Part:
    """One compiled piece: the function up to a break, or what comes behind one."""

    name: str
    guards: tuple[str, ...]
    """Under which it runs, in words."""
    residual: str
    """What runs, as Python code; empty if it runs as it is."""
    code: str | None = None
    """Its graph, as Python code; None if no tensor operation was recorded."""
    operators: tuple[str, ...] = ()
    """What the graph calls, in order."""
    eager: str | None = None
    """Why it runs as it is, if it does."""
    broken: GraphBreak | None = None
    """Where it ends, if not at the end of the program."""
    resumed: bool = False
    """It goes on behind a break."""
    careful: bool = False
    """It takes no value for granted: it runs when a check of another graph has failed."""
    trace_seconds: float = 0.0
    backend_seconds: float = 0.0
    own: str | None = None
    """Why the graph runs by its own operators, and was not given to the backend."""

    @property
    def counts(self) -> dict[str, int]:
        """How often each operator occurs, the most frequent first."""
        return dict(Counter(self.operators).most_common())


@dataclass(frozen=True)
class Explanation:
    """What became of a call: `result`, and how the function was compiled."""

    name: str
    result: Any = field(repr=False)
    parts: tuple[Part, ...]
    """In the order in which they first ran."""
    recompiles: tuple[str, ...] = ()
    """For each time something was compiled again, the guards that failed."""
    events: tuple[dict[str, Any], ...] = field(default=(), repr=False, compare=False)
    """What the journal has told meanwhile: all that a report shows."""

    @property
    def graphs(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.code is not None)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Each place once, however often the program passes it, is compiled, or by which words.

        Those that the program has: what a split itself brings about, and splits of variants that
        run when a check of a graph has failed (`careful_breaks`), are not among them.
        """
        return _distinct(part for part in self.parts if not part.careful)

    @property
    def careful_breaks(self) -> tuple[GraphBreak, ...]:
        """Where only those variants are split that take no value for granted."""
        known = {each.identity for each in self.breaks}
        found = _distinct(part for part in self.parts if part.careful)
        return tuple(each for each in found if each.identity not in known)

    @property
    def break_count(self) -> int:
        return len(self.breaks)

    @property
    def ops_per_graph(self) -> tuple[tuple[str, ...], ...]:
        return tuple(part.operators for part in self.graphs)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    @property
    def guards(self) -> tuple[tuple[str, ...], ...]:
        """Those of each part."""
        return tuple(part.guards for part in self.parts)

    @property
    def eager(self) -> tuple[Part, ...]:
        """What runs as it is."""
        return tuple(part for part in self.parts if part.eager is not None)

    @property
    def ran_eagerly(self) -> tuple[str, ...]:
        """For each call that ran as it is although something was compiled, or could be: why."""
        return tuple(event["why"] for event in self.events if event["kind"] == "eager")

    @property
    def trace_seconds(self) -> float:
        return sum(part.trace_seconds for part in self.parts)

    @property
    def backend_seconds(self) -> float:
        return sum(part.backend_seconds for part in self.parts)

    def report(self, path: str | os.PathLike[str], *, editor: str | None = None) -> Path:
        """Writes the report: one HTML file, which needs nothing but a browser.

        With `editor` ("vscode" and others), places in files are links that open them there.
        """
        return build(self.events, path, editor=editor)

    def __repr__(self) -> str:
        return f"<Explanation of {self.name}: {self.summary()}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return explained.notebook(self)

    def text(self, *, guards: bool = False) -> str:
        """All of it as text; with `guards`, also those that every program has."""
        return "\n".join(line.text for line in explained.lines(self, guards=guards))

    def summary(self) -> str:
        """The most important numbers, in one line."""
        counted = [
            _many(self.graph_count, "graph"),
            _many(self.break_count, "graph break"),
            _many(self.op_count, "operator"),
        ]
        if self.careful_breaks:
            counted.append(f"{len(self.careful_breaks)} more where a check failed")
        if self.recompiles:
            counted.append(_many(len(self.recompiles), "recompile"))
        if self.eager:
            counted.append(f"{_many(len(self.eager), 'part')} not captured")
        if self.ran_eagerly:
            counted.append(f"{_many(len(self.ran_eagerly), 'call')} ran eagerly")
        return ", ".join(counted)


def _distinct(parts: Iterable[Part]) -> tuple[GraphBreak, ...]:
    found: dict[object, GraphBreak] = {}
    for part in parts:
        broken = part.broken
        if broken is not None and not (part.resumed and broken.is_of_a_split):
            found.setdefault(broken.identity, broken)
    return tuple(found.values())


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
