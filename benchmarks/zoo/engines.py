"""Engines: what the measuring programs compile with.

In: a specification, "torch" or "package.module:compile". Out: an ``Engine`` with ``compile``
(as torch.compile: target, backend, fullgraph, dynamic), ``clear`` and ``stats``.

A foreign engine's module, or the callable itself, may have ``reset()``, which forgets everything
compiled so far, and ``corpus_stats()``, which gives ``{"graph_breaks": n, "reasons": {text: n}}``
since the last reset.
"""

import ast
import collections
import importlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import torch

PEER: Final = "torch"
Stats = dict[str, Any]


class Engine(Protocol):
    spec: str

    def compile(self, target: Any, **options: Any) -> Any: ...

    def clear(self) -> None:
        """Forget what was compiled, and the statistics."""

    def stats(self) -> Stats: ...


def reason_of_break(message: str) -> str:
    """The first line of a TorchDynamo message, with what it names (an operator, a function)."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    if not lines:
        return "?"
    mark = "Developer debug context:"
    named = next((line[len(mark) :].strip() for line in lines if line.startswith(mark)), "")
    return (lines[0] + (f" [{named}]" if named else ""))[:160]


class TorchEngine:
    """torch.compile, with TorchDynamo's own counters."""

    spec = PEER

    def __init__(self, nested: bool = False, settings: Iterable[str] = ()) -> None:
        self._dynamo: Any = importlib.import_module("torch._dynamo")
        self._counters: Any = importlib.import_module("torch._dynamo.utils").counters
        if nested:
            self._dynamo.config.nested_graph_breaks = True
        for setting in settings:
            name, value = setting.split("=", 1)
            setattr(self._dynamo.config, name, ast.literal_eval(value))

    def compile(self, target: Any, **options: Any) -> Any:
        return torch.compile(target, **options)

    def clear(self) -> None:
        self._dynamo.reset()
        self._counters.clear()

    def stats(self) -> Stats:
        breaks: collections.Counter[str] = collections.Counter()
        for message, count in self._counters["graph_break"].items():
            breaks[reason_of_break(message)] += count
        skips: collections.Counter[str] = collections.Counter()
        for message, count in self._counters["unimplemented"].items():
            # A break inside a break: the frame runs eagerly, which is a break for the user too.
            if "another graph break occurred" in message or "results in a skip" in message:
                skips[f"[frame skipped] {reason_of_break(message)}"] += count
        return {
            "graph_breaks": breaks.total(),
            "skips": skips.total(),
            "reasons": dict(breaks),
            "skip_reasons": dict(skips),
            "unique_graphs": self._counters["stats"].get("unique_graphs", 0),
            "frames_total": self._counters["frames"].get("total", 0),
            "frames_ok": self._counters["frames"].get("ok", 0),
        }


class ForeignEngine:
    """Any callable with torch.compile's parameters."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        name, _, path = spec.partition(":")
        module: Any = importlib.import_module(name)
        found = module
        for attribute in path.split("."):
            found = getattr(found, attribute)
        self._compile: Callable[..., Any] = found
        self._reset = getattr(found, "reset", None) or getattr(module, "reset", None)
        self._stats = getattr(found, "corpus_stats", None) or getattr(module, "corpus_stats", None)

    def compile(self, target: Any, **options: Any) -> Any:
        return self._compile(target, **options)

    def clear(self) -> None:
        if self._reset is not None:
            self._reset()

    def stats(self) -> Stats:
        if self._stats is None:
            return {}
        stats = dict(self._stats())
        reasons = stats.get("reasons") or {}
        stats["reasons"] = {str(text)[:160]: int(count) for text, count in reasons.items()}
        return stats


class MissingEngine:
    """An engine that could not be loaded: every compilation reports why."""

    def __init__(self, spec: str, why: Exception) -> None:
        self.spec, self._why = spec, why

    def compile(self, target: Any, **options: Any) -> Any:
        raise self._why

    def clear(self) -> None:
        pass

    def stats(self) -> Stats:
        return {}


def load(spec: str, nested: bool = False, settings: Iterable[str] = ()) -> Engine:
    """Never fails: what is wrong with the engine is for each case to report."""
    try:
        return TorchEngine(nested, settings) if spec == PEER else ForeignEngine(spec)
    except Exception as error:
        return MissingEngine(spec, error)
