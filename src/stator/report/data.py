"""From events to what the page shows.

Stage: report. In: events, of one process or of several, in any order of processes. Out: one dict
for the page: functions, compiles, recompiles and what the user was told, with numbers in place of
references, and each text that occurs often in one place. What an event lacks is left out: a trace
may end anywhere.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Event = Mapping[str, Any]
Row = dict[str, Any]

_TOLD: Final = ("warning", "limit", "failure", "reset")


class _Texts:
    """Texts by number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number


class _Reader:
    """Takes the events in, one after the other."""

    def __init__(self, events: list[Event]) -> None:
        self.texts = _Texts()
        self.runs: list[Row] = []
        self.functions: list[Row] = []
        self.compiles: list[Row] = []
        self.recompiles: list[Row] = []
        self.told: list[Row] = []
        self.sources: dict[tuple[Any, Any], Row] = {}
        self.seconds = 0.0
        self._function_numbers: dict[tuple[Any, Any], int] = {}
        self._compile_numbers: dict[tuple[Any, Any], int] = {}
        self._recompile_numbers: dict[tuple[Any, Any], int] = {}
        started = {event.get("pid"): event for event in events if event["kind"] == "start"}
        times = [event["time"] for event in started.values() if "time" in event]
        first = min(times, default=0.0)
        # Each process counts from its own start.
        self._offsets = {pid: event.get("time", first) - first for pid, event in started.items()}

    def take(self, event: Event) -> None:
        kind = event["kind"]
        self.seconds = max(self.seconds, self._at(event, "at"))
        if kind == "start":
            names = ("pid", "argv", "python", "torch", "stator", "time")
            self.runs.append({name: event.get(name) for name in names})
        elif kind == "function":
            self._take_function(event)
        elif kind == "source":
            self._take_source(event)
        elif kind == "compile":
            self._take_compile(event)
        elif kind == "recompile":
            self._take_recompile(event)
        elif kind == "end":
            self._take_end(event)
        elif kind in _TOLD:
            self._take_told(event)

    def _at(self, event: Event, name: str) -> float:
        return float(event.get(name) or 0.0) + float(self._offsets.get(event.get("pid"), 0.0))

    def _function(self, event: Event, number: Any) -> int:
        """By the order in which they come; one that was not described is known by its number."""
        key = event.get("pid"), number
        found = self._function_numbers.get(key)
        if found is None:
            found = self._function_numbers[key] = len(self.functions)
            self.functions.append(
                {"name": f"function {number}", "parent": None, "hits": None, "declined": 0}
            )
        return found

    def _take_function(self, event: Event) -> None:
        row = self.functions[self._function(event, event.get("id"))]
        for name in ("name", "file", "line", "library"):
            row[name] = event.get(name)
        if event.get("parent") is not None:
            row["parent"] = self._function(event, event["parent"])
        if event.get("source"):
            lines = event["source"]
            self._source(event.get("file"), event.get("first"), event.get("name"), event, lines)
            row["source"] = [event.get("file"), event.get("first")]

    def _take_source(self, event: Event) -> None:
        self._source(
            event.get("file"), event.get("first"), event.get("name"), event, event.get("lines")
        )

    def _source(self, file: Any, first: Any, name: Any, event: Event, lines: Any) -> None:
        """The function's own name, not that of a continuation, is in the event of the source."""
        row = {"file": file, "first": first, "lines": lines or []}
        row["library"] = event.get("library") or ""
        row["name"] = name
        if event["kind"] == "source" or (file, first) not in self.sources:
            self.sources[file, first] = row

    def _take_compile(self, event: Event) -> None:
        names = ("outcome", "ops", "graph", "effects", "residual", "bytecode", "eager", "broken")
        row: Row = {name: event.get(name) for name in names}
        row["number"] = len(self.compiles) + 1
        row["function"] = self._function(event, event.get("function"))
        row["began"] = self._at(event, "began")
        row["ended"] = self._at(event, "at")
        row["times"] = [
            float(event.get(f"{name}_seconds") or 0.0) for name in ("trace", "backend", "other")
        ]
        row["thread"] = event.get("thread")
        row["pid"] = event.get("pid")
        row["hits"] = None
        again = self._recompile_numbers.get((event.get("pid"), event.get("recompile")))
        row["recompile"] = again
        places = event.get("places") or []
        row["places"] = [
            [self.texts(each["file"]), each["line"], self.texts(each["function"])]
            for each in places
        ]
        row["nodes"] = [self._node(node) for node in event.get("nodes") or []]
        row["guards"] = [
            [self.texts(guard.get(name) or "") for name in ("group", "text", "where")]
            for guard in event.get("guards") or []
        ]
        if again is not None:
            self.recompiles[again]["compile"] = len(self.compiles)
        self._compile_numbers[event.get("pid"), event.get("number")] = len(self.compiles)
        self.compiles.append(row)

    def _node(self, node: Mapping[str, Any]) -> list[Any]:
        shape = node.get("shape")
        return [
            node["name"],
            node["op"],
            node["target"],
            node.get("args", ""),
            None if shape is None else f"({', '.join(shape)})",
            node.get("dtype"),
            node.get("inputs", []),
            node.get("stack", []),
        ]

    def _take_recompile(self, event: Event) -> None:
        self._recompile_numbers[event.get("pid"), event.get("number")] = len(self.recompiles)
        pid = event.get("pid")
        failures = []
        for failure in event.get("failures") or []:
            row = dict(failure)
            entry = failure.get("compile")
            row["compile"] = self._compile_numbers.get((pid, entry)) if entry is not None else None
            failures.append(row)
        self.recompiles.append(
            {
                "function": self._function(event, event.get("function")),
                "at": self._at(event, "at"),
                "failures": failures,
                "remedy": event.get("remedy") or "",
                "compile": None,
            }
        )

    def _take_end(self, event: Event) -> None:
        pid = event.get("pid")
        for each in event.get("functions") or []:
            number = self._function_numbers.get((pid, each.get("function")))
            if number is not None:
                row = self.functions[number]
                row["hits"] = 0 if each.get("calls") is None else each.get("hits") or 0
                row["declined"] = each.get("declined") or 0
                row["calls"] = each.get("calls")
                row["captured"] = each.get("captured")
                row["eager"] = each.get("eager") or {}
        for each in event.get("entries") or []:
            found = self._compile_numbers.get((pid, each.get("number")))
            if found is not None:  # else it was made before anyone listened
                made = self.compiles[found]
                made["hits"] = each.get("hits") or 0
                row = self.functions[made["function"]]
                if row.get("calls") is None:  # as older traces tell it
                    row["hits"] = (row["hits"] or 0) + made["hits"]

    def _take_told(self, event: Event) -> None:
        row: Row = {"kind": event["kind"], "at": self._at(event, "at"), "text": event.get("text")}
        if event.get("function") is not None:
            row["function"] = self._function(event, event["function"])
        for name in ("error", "broken"):
            if event.get(name):
                row[name] = event[name]
        self.told.append(row)


def page_data(events: Iterable[Event]) -> Row:
    """All that the page shows."""
    taken = list(events)
    reader = _Reader(taken)
    for event in taken:
        reader.take(event)
    return {
        "runs": reader.runs,
        "seconds": reader.seconds,
        "texts": reader.texts.all,
        "functions": reader.functions,
        "compiles": reader.compiles,
        "recompiles": reader.recompiles,
        "told": reader.told,
        "sources": list(reader.sources.values()),
    }
