"""What the driver tells: to the logs (docs/diagnostics.md), and to the journal (docs/report.md).

Stage: driver. In: what happened in a compile. Out: log records and events; nothing is computed for
logs that are off, or for a journal that nobody reads. All of it happens outside of traces.
"""

import dis
import weakref
from collections import Counter
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

import torch
import torch.fx as fx

from stator.capture import CaptureError, Trace
from stator.capture.numbers.shapes import Shapes
from stator.capture.trace import steps
from stator.capture.trace.task import Task
from stator.diagnostics import journal, logs
from stator.diagnostics.explanation import GraphBreak, is_of_a_split
from stator.driver import regions, story
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Recompile
from stator.driver.records import arguments, name
from stator.driver.tally import TOTALS, Runs, Tally, Why
from stator.effects import Effect
from stator.effects.steps import Apply, Plan
from stator.evaluator import statistics

_INDENT: Final = "\n  "
_CHUNK: Final = 1000  # lines in one record


class Watch:
    """One trace, or several of the same call, for the `dynamo` log."""

    def __init__(self, label: Label) -> None:
        self._label = label
        self._frames = statistics().frames
        if logs.on("dynamo", label, verbose=True):
            logs.write("dynamo", f"{label}: tracing begins", verbose=True)
        if journal.on():
            story.began(label)

    def traced(self, trace: Trace, seconds: float, what: str = "traced") -> None:
        if journal.on():
            story.traced(self._label, seconds)
        if not logs.on("dynamo", self._label):
            return
        frames = statistics().frames - self._frames
        end = "" if trace.broken is None else f", ended by a break: {trace.broken.reason}"
        text = f"{self._label}: {what} in {seconds * 1000:.1f} ms, {frames} frames{end}"
        logs.write("dynamo", text)


def stepped() -> None:
    """A trace has ended: what it has noted of its instructions."""
    lines = steps.take()
    for start in range(0, len(lines), _CHUNK):
        text = _INDENT.join(["instructions", *lines[start : start + _CHUNK]])
        logs.write("dynamo", text, verbose=True)


class Instead:
    """For what runs in an entry: it tells that something else has run in its place.

    It does not keep the tally alive, which has the entry.
    """

    def __init__(self, label: Label, tally: Tally) -> None:
        self._label = label
        self._tally = weakref.ref(tally)

    def passed_on(self) -> None:
        """A variant that takes nothing for granted serves this call, and counts it."""
        if (tally := self._tally()) is not None:
            tally.passed_on()

    def ran_eagerly(self, why: Why) -> None:
        """The function itself runs in this call."""
        if (tally := self._tally()) is not None:
            tally.ran_eagerly(why)
        _told_eager(self._label, why)


def declined(label: Label, why: Why) -> None:
    """A call runs as it is, and nothing is compiled for it."""
    if not label.units:
        TOTALS.gone.add(Runs(calls=1, eager=Counter({why: 1})))
    if journal.on():
        story.declined(label, why)
    if why is not Why.LIMIT:  # of which the user was told
        _told_eager(label, why)


def _told_eager(label: Label, why: Why) -> None:
    if logs.on("perf_hints", label):
        logs.write("perf_hints", f"{label}: a call runs eagerly, since {why.value}")
    if journal.on():
        journal.write("eager", function=story.known(label), why=why.value)


def broke(error: CaptureError, *, eager: bool) -> None:
    """The program was split, or runs as it is, because of this."""
    verbose = logs.on("graph_breaks", *error.places, verbose=True)
    if logs.on("graph_breaks", *error.places):
        found = GraphBreak.of(error)
        told = found.is_of_a_split or not logs.first_time((found.reason, found.place))
        if not told or verbose:  # what a split brings about was told with it
            logs.write("graph_breaks", f"graph break: {found}")
    if eager and logs.on("perf_hints", *error.places):
        logs.write("perf_hints", f"a path runs eagerly as a whole: {error}")


def recompiled(why: Recompile) -> None:
    TOTALS.recompiles += 1
    if logs.on("recompiles", why.label):
        logs.write("recompiles", str(why))
    if journal.on():
        story.recompiled(why)


def decided(label: Label, shapes: Shapes | None) -> None:
    """A trace has ended, and the backend: what became of its symbols, one line each."""
    if shapes and logs.on("dynamic", label):
        for each in (*shapes.created, *shapes.assumed.decisions()):
            logs.write("dynamic", f"{label}: {each}")


def closed(label: Label, why: str, what: str = "nothing") -> None:
    """A program can't be compiled with sizes, or floats, left open."""
    if logs.on("dynamic", label):
        logs.write("dynamic", f"{label}: {what} is left open any more, since {why}")


def apart(label: Label, why: str) -> None:
    """The backend has failed on sizes that depend on values."""
    if logs.on("dynamic", label):
        what = "is split where sizes and numbers depend on values"
        logs.write("dynamic", f"{label}: the program {what}, since the backend fails: {why}")


def limited(label: Label, text: str) -> None:
    """A limit of recompiles was reached."""
    if logs.on("perf_hints", label):
        logs.write("perf_hints", text)
    if journal.on():
        journal.write("limit", function=story.known(label), text=text)
    TOTALS.limits += 1
    declined(label, Why.LIMIT)


def warned(label: Label, text: str) -> None:
    """The user gets a warning."""
    if journal.on():
        journal.write("warning", function=story.known(label), text=text)


def failed(label: Label, error: BaseException) -> None:
    """A compile ends without an entry."""
    TOTALS.failed()
    if not label.units:
        TOTALS.gone.calls += 1
    if isinstance(error, CaptureError):
        TOTALS.broke(error)
    if journal.on():
        story.failed(label, error)


def suppressed(label: Label, why: Why) -> None:
    """A compile has ended without an entry, and the call runs as it is."""
    if not label.units:
        TOTALS.gone.calls -= 1  # it was counted as one that failed
    if journal.on():
        story.suppressed(label)
    declined(label, why)


def continued(label: Label, by: Label) -> None:
    """What is behind a break of the first one is the second one."""
    if journal.on():
        story.continued(label, by)


def forgotten() -> None:
    """All that was compiled is."""
    story.forgotten()
    TOTALS.clear()


def ended() -> None:
    """The program ends, or whoever listens has heard enough."""
    if journal.on():
        story.ended()


def inlined(task: Task, trace: Trace) -> None:
    """A region can't be one: what is traced is traced again, and captures it where it is called."""
    if logs.on("regions", task.place) and trace.broken is not None:
        names = ", ".join(code.co_qualname for code in trace.regions)
        logs.write("regions", f"{names} is no region: {trace.broken.reason}")


def recorded(label: Label, module: fx.GraphModule) -> None:
    """A graph, before the backend gets it."""
    if logs.on("graph", label):
        logs.write("graph", _titled(label, "graph", _table(module)))
    if logs.on("graph_code", label):
        code = module.code.strip()
        if logs.on("graph_code", label, verbose=True):
            shown: Any = module.print_readable
            code = shown(print_output=False, include_stride=True, include_device=True)
        logs.write("graph_code", _titled(label, "graph", code.splitlines()))
    if logs.on("graph_sizes", label):
        logs.write("graph_sizes", _titled(label, "sizes", _sizes(module)))
    if logs.on("dynamic", label) and (found := list(_unknown(module))):
        logs.write("dynamic", _titled(label, "known when the graph runs", found))
    if logs.on("regions", label) and (found := list(regions.described(module))):
        logs.write("regions", _titled(label, "regions", found))
    if journal.on():
        story.recorded(label, module)


def compiled(
    label: Label, done: Compilation, plan: Plan | None = None, function: Any = None
) -> None:
    """An entry was made."""
    TOTALS.compiled(None if done.graph is None else len(done.operators))
    if done.own is not None:
        TOTALS.own += 1
    if done.broken is not None and not is_of_a_split(done.broken.source):
        TOTALS.broke(done.broken)
    if logs.on("guards", label):
        logs.write("guards", _titled(label, "guards", map(str, done.guards)))
    if logs.on("side_effects", label) and plan is not None and plan.effects:
        words = _effects(plan)
        logs.write("side_effects", _titled(label, "side effects", words))
    if logs.on("bytecode", label) and done.residual:
        lines = done.residual.splitlines()
        if logs.on("bytecode", label, verbose=True) and isinstance(function, FunctionType):
            lines += dis.Bytecode(function).dis().splitlines()
        logs.write("bytecode", _titled(label, "runs", lines))
    if logs.on("dynamo", label):
        text = f"{label}: backend took {done.backend_seconds * 1000:.1f} ms"
        if done.own is not None:
            text = f"{label}: the graph runs by torch's own kernels, since {done.own}"
        logs.write("dynamo", text if done.graph is not None else f"{label}: no graph")
    if journal.on():
        words = [] if plan is None else _effects(plan)
        story.compiled(label, done, words, function)


def generated(label: Label, number: int, seconds: float) -> None:
    """A graph that ran by torch's own kernels is Inductor's from now on."""
    TOTALS.own = max(TOTALS.own - 1, 0)  # they may have been counted before a reset
    if logs.on("dynamo", label):
        text = f"{label}: the graph has run often; the backend took {seconds * 1000:.1f} ms"
        logs.write("dynamo", text)
    if journal.on():
        story.generated(label, number, seconds)


def operators(module: fx.GraphModule) -> tuple[str, ...]:
    """What a graph calls, in order, by the names that a user knows."""
    calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
    names = {id(node.target): name(node) for node in calls}
    return tuple([names[id(node.target)] for node in calls])


def _titled(label: Label, title: str, lines: Any) -> str:
    return _INDENT.join([f"{label}: {title}", *lines])


def _table(module: fx.GraphModule) -> list[str]:
    rows = [("op", "name", "target", "arguments")]
    for node in module.graph.nodes:
        rows.append((node.op, node.name, name(node), arguments(node)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]


def _sizes(module: fx.GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            yield f"{node.name}: {tuple(value.shape)}"


def _unknown(module: fx.GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        for symbol in node.meta.get("unbacked_bindings") or ():
            where = (node.stack_trace or "").strip().splitlines()
            yield f"{symbol} from {node.name}" + (f": {where[-1].strip()}" if where else "")


# Of effects: `{0}` is the object, `{1}` the attribute.
_WORDS: Final = {
    "ArrayContents": "{0} gets new contents",
    "AttrDel": "the attribute {1} of {0} is deleted",
    "AttrSet": "the attribute {1} of {0} is set",
    "ByteArrayContents": "{0} gets new contents",
    "CellDel": "the variable {0} is deleted",
    "CellSet": "the variable {0} is set",
    "ClassAttrDel": "the attribute {1} of the class {0} is deleted",
    "ClassAttrSet": "the attribute {1} of the class {0} is set",
    "DequeContents": "{0} gets new contents",
    "DictContents": "{0} gets new contents",
    "KeyDel": "an item of {0} is deleted",
    "KeySet": "an item of {0} is set",
    "ListContents": "{0} gets new contents",
    "ListExtended": "{0} gets more items",
    "Perform": "{0} is called",
    "SetContents": "{0} gets new contents",
    "SlotDel": "the attribute {1} of {0} is deleted",
    "SlotSet": "the attribute {1} of {0} is set",
    "StateSet": "{0} gets another state",
}


def _effects(plan: Plan) -> list[str]:
    written = (step for step in plan.effects if isinstance(step, Apply))
    return [_words(step.effect, str(step)) for step in written]


def in_words(effect: Effect) -> str:
    """What an effect does; empty if there are no words for it."""
    words = _WORDS.get(type(effect).__name__, "")
    fields = vars(effect)
    descriptor = fields.get("descriptor")
    name = fields.get("name") if descriptor is None else descriptor.__name__
    return words.format(effect.target, name)


def _words(effect: Effect, text: str) -> str:
    """An effect in words; how it is written follows."""
    words = in_words(effect)
    return f"{words} ({text})" if words else text
