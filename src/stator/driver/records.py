"""What the driver makes, as data for the journal: functions, graphs, guards, breaks, effects.

Stage: driver. In: graphs, guards, errors, as they are. Out: lists and dicts that can be written as
JSON, and that keep nothing of the program alive. Called only when somebody listens.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import torch
import torch.fx as fx

from stator.diagnostics.breaks import CaptureError, Place
from stator.diagnostics.catalogue import reason
from stator.diagnostics.explanation import GraphBreak
from stator.diagnostics.places import library
from stator.driver.ledger import Misfit
from stator.guards import (
    Aliased,
    Attr,
    ClassAttr,
    Closure,
    Code,
    Defaults,
    Fixed,
    Function,
    GlobalsOf,
    Guard,
    Holds,
    KwDefaults,
    Slot,
    Source,
    State,
    TypeOf,
)
from stator.guards.sources import MODULE_DICTS, NAMESPACE, BuiltinsOf
from stator.guards.tensors import NoOverlap, TensorMatch

_LONGEST: Final = 400  # of what a node is called with, as text

# ---------------------------------------------------------------------- graphs


def name(node: fx.Node) -> str:
    """What a node calls, by the name that a user knows."""
    target: Any = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


class Graph:
    """The nodes of a graph, and the places they come from, each place once."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self.nodes = [self._node(node) for node in module.graph.nodes]

    def _node(self, node: fx.Node) -> dict[str, Any]:
        stack = [self._number(place) for place in places_of(node)]
        innermost = self.places[stack[-1]] if stack else None
        return {
            "name": node.name,
            "op": node.op,
            "target": name(node),
            "args": _short(arguments(node)),
            "inputs": [each.name for each in node.all_input_nodes],
            **_value(node.meta.get("example_value")),
            "file": None if innermost is None else innermost.file,
            "line": None if innermost is None else innermost.line,
            "stack": stack,
        }

    def _number(self, place: Place) -> int:
        number = self._numbers.setdefault(place, len(self.places))
        if number == len(self.places):
            self.places.append(place)
        return number


def arguments(node: fx.Node) -> str:
    """What a node is called with, as text."""
    given = [*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())]
    return ", ".join(given)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _value(value: Any) -> dict[str, Any]:
    """What is known of the value of a node."""
    if isinstance(value, torch.Tensor):
        shape = [str(size) for size in value.shape]
        return {"shape": shape, "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return {"shape": None, "dtype": f"{type(value).__name__} {value}"}
    if isinstance(value, tuple | list):
        return {"shape": None, "dtype": f"{len(value)} values"}
    return {"shape": None, "dtype": None}


_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)


def places_of(node: fx.Node) -> list[Place]:
    """The user's frames in which a node was recorded, the innermost last."""
    return places_in(node.stack_trace or "")


def places_in(text: str) -> list[Place]:
    """The places in a node's `stack_trace`."""
    return [Place(file, int(line), function) for file, line, function in _FRAME.findall(text)]


# ---------------------------------------------------------------------- guards

_VERBS: Final = {
    "TypeIs": "is of",
    "Length": "has",
    "Keys": "has",
    "HasKey": "has",
    "NoKey": "has",
    "NoAttr": "has",
    "NoClassAttr": "has",
    "AttrKeys": "has",
    "SlotEmpty": "has",
    "NotAliased": "and others:",
    "NoOverlap": "and others:",
}


def guards(found: Iterable[Guard]) -> list[dict[str, Any]]:
    """Guards in words, what they protect, and the lines that have read the values."""
    lines: dict[tuple[int, int], str] = {}
    rows = []
    for each in found:
        # A model of many layers reads all of them with a few lines.
        key = id(each.code), each.unit
        if each.code is None or key not in lines:
            lines[key] = each.where
        rows.append({**_guard(each), "where": lines[key]})
    return rows


def _guard(guard: Guard) -> dict[str, Any]:
    check = guard.check
    verb = _VERBS.get(type(check).__name__, "is")
    source = None if guard.source is None else str(guard.source)
    words = str(check) if source is None else f"{source} {verb} {check}"
    return {"text": words, "source": source, "group": group(guard)}


def misfit(found: Misfit) -> dict[str, Any]:
    """Why an entry does not fit a call."""
    return {
        "compile": found.number or None,
        "text": str(found),
        "source": found.source,
        "expected": found.expected,
        "actual": found.actual,
        "cause": str(found.cause),
        "where": found.where,
        "failing": found.failing,
        "guards": found.guards,
    }


def group(guard: Guard) -> str:
    """What a guard is about, in the words of the report."""
    check = guard.check
    if isinstance(check, Holds):
        return "shapes"
    if isinstance(check, Aliased | NoOverlap):
        return "identity"
    steps = list(_steps(guard.source))
    root = steps[-1] if steps else None
    if isinstance(root, State):
        return "torch state"
    if any(isinstance(step, ClassAttr | TypeOf) for step in steps):
        return "classes"
    if isinstance(root, Fixed):
        return _of_fixed(root)
    if isinstance(root, Function):
        return _of_function(steps)
    held = [step.name for step in steps if isinstance(step, Attr)]
    if isinstance(check, TensorMatch) and any(name in MODULE_DICTS for name in held):
        return "parameters and buffers"
    return "attributes" if held or any(isinstance(s, Slot) for s in steps) else "arguments"


def _steps(source: Source | None) -> list[Source]:
    """From the value to where its path starts."""
    found = []
    while source is not None:
        found.append(source)
        source = source.base
    return found


def _of_fixed(root: Fixed) -> str:
    if type in type(root.value).__mro__:
        return "classes"
    return "globals" if root.name.startswith(NAMESPACE) else "functions"


_FROM_FUNCTION: Final = (
    (Closure, "closure variables"),
    (GlobalsOf, "globals"),
    (BuiltinsOf, "globals"),
    (Defaults, "functions"),
    (KwDefaults, "functions"),
    (Code, "functions"),
)


def _of_function(steps: list[Source]) -> str:
    for kind, words in _FROM_FUNCTION:
        if any(isinstance(step, kind) for step in steps):
            return words
    return "functions"


# ---------------------------------------------------------------------- breaks


def broken(error: CaptureError) -> dict[str, Any]:
    """Why a program was split, with what is known about such reasons."""
    found = GraphBreak.of(error)
    general = {}
    if found.id:
        kind = reason(found.id)
        general = {"what": kind.what, "why": kind.why, "fix": kind.fix}
    return {
        "id": found.id,
        "title": found.title,
        "reason": found.reason,
        "hint": found.hint,
        "source": found.source,
        "stack": [place(each) for each in found.stack],
        "line": found.line,
        "of_a_split": found.is_of_a_split,
        **general,
    }


def place(place: Place) -> dict[str, Any]:
    return {
        "file": place.file,
        "line": place.line,
        "function": place.function,
        "library": library(place),
    }
