"""What the driver writes to the logs (docs/diagnostics.md).

Stage: driver. In: what happened in a compile. Out: log records; nothing is computed for logs that
are off. All of it happens outside of traces.
"""

import dis
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any, Final

import torch
import torch.fx as fx

from stator.capture import CaptureError, Trace
from stator.diagnostics import logs
from stator.diagnostics.explanation import GraphBreak
from stator.driver.ledger import Compilation, Label, Recompile
from stator.effects import Effect
from stator.effects.steps import Plan
from stator.evaluator import statistics

_INDENT: Final = "\n  "


class Watch:
    """One trace, or several of the same call, for the `dynamo` log."""

    def __init__(self, label: Label) -> None:
        self._label = label
        self._frames = statistics().frames
        if logs.on("dynamo", verbose=True):
            logs.write("dynamo", f"{label}: tracing begins", verbose=True)

    def traced(self, trace: Trace, seconds: float, what: str = "traced") -> None:
        if not logs.on("dynamo"):
            return
        frames = statistics().frames - self._frames
        end = "" if trace.broken is None else f", ended by a break: {trace.broken.reason}"
        text = f"{self._label}: {what} in {seconds * 1000:.1f} ms, {frames} frames{end}"
        logs.write("dynamo", text)


def broke(error: CaptureError, *, eager: bool) -> None:
    """The program was split, or runs as it is, because of this."""
    verbose = logs.on("graph_breaks", verbose=True)
    if logs.on("graph_breaks"):
        found = GraphBreak.of(error)
        if logs.first_time((found.reason, found.place)) or verbose:
            logs.write("graph_breaks", f"graph break: {found}")
    if eager and logs.on("perf_hints"):
        logs.write("perf_hints", f"a path runs eagerly as a whole: {error}")


def recompiled(why: Recompile) -> None:
    if logs.on("recompiles"):
        logs.write("recompiles", str(why))


def opened(label: Label, texts: Sequence[str]) -> None:
    """Sizes or ints have changed, and become symbols."""
    if texts and logs.on("dynamic"):
        logs.write("dynamic", f"{label}: left open from now on: {', '.join(texts)}")


def closed(label: Label, why: str) -> None:
    """A program can't be compiled with sizes left open."""
    if logs.on("dynamic"):
        logs.write("dynamic", f"{label}: nothing is left open any more, since {why}")


def limited(text: str) -> None:
    """A limit of recompiles was reached."""
    if logs.on("perf_hints"):
        logs.write("perf_hints", text)


def recorded(label: Label, module: fx.GraphModule) -> None:
    """A graph, before the backend gets it."""
    if logs.on("graph"):
        logs.write("graph", _titled(label, "graph", _table(module)))
    if logs.on("graph_code"):
        code = module.code.strip()
        if logs.on("graph_code", verbose=True):
            shown: Any = module.print_readable
            code = shown(print_output=False, include_stride=True, include_device=True)
        logs.write("graph_code", _titled(label, "graph", code.splitlines()))
    if logs.on("graph_sizes"):
        logs.write("graph_sizes", _titled(label, "sizes", _sizes(module)))
    if logs.on("dynamic") and (found := list(_unknown(module))):
        logs.write("dynamic", _titled(label, "known when the graph runs", found))


def compiled(
    label: Label, done: Compilation, plan: Plan | None = None, function: Any = None
) -> None:
    """An entry was made."""
    if logs.on("guards"):
        logs.write("guards", _titled(label, "guards", map(str, done.guards)))
    if logs.on("side_effects") and plan is not None and plan.effects:
        words = [_words(step.effect, str(step)) for step in plan.effects]
        logs.write("side_effects", _titled(label, "side effects", words))
    if logs.on("bytecode") and done.residual:
        lines = done.residual.splitlines()
        if logs.on("bytecode", verbose=True) and isinstance(function, FunctionType):
            lines += dis.Bytecode(function).dis().splitlines()
        logs.write("bytecode", _titled(label, "runs", lines))
    if logs.on("dynamo"):
        text = f"{label}: backend took {done.backend_seconds * 1000:.1f} ms"
        logs.write("dynamo", text if done.graph is not None else f"{label}: no graph")


def operators(module: fx.GraphModule) -> tuple[str, ...]:
    """What a graph calls, in order, by the names that a user knows."""
    calls = (node for node in module.graph.nodes if node.op.startswith("call_"))
    return tuple(map(_name, calls))


def _name(node: fx.Node) -> str:
    target: Any = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _titled(label: Label, title: str, lines: Any) -> str:
    return _INDENT.join([f"{label}: {title}", *lines])


def _table(module: fx.GraphModule) -> list[str]:
    rows = [("op", "name", "target", "arguments")]
    for node in module.graph.nodes:
        arguments = ", ".join(
            [*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())]
        )
        rows.append((node.op, node.name, _name(node), arguments))
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
}


def _words(effect: Effect, text: str) -> str:
    """An effect in words; how it is written follows."""
    words = _WORDS.get(type(effect).__name__)
    if words is None:
        return text
    fields = vars(effect)
    descriptor = fields.get("descriptor")
    name = fields.get("name") if descriptor is None else descriptor.__name__
    return f"{words.format(effect.target, name)} ({text})"
