"""What a region does besides computing its results.

Stage: capture. In: a tracer, before and after a region's body. Out: what the body has changed, in
words, with the line; or why it can't be kept apart though it changes nothing.
"""

from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from stator.bytecode import decode
from stator.capture.objects.changes import changes
from stator.capture.trace.blame import blame
from stator.effects import Effect
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


class Watch:
    """Notes which line of the program writes to what, while regions are traced."""

    def __init__(self, calls: "Calls") -> None:
        self._world = calls.world
        self._before = self._world.watch
        self.lines: dict[tuple[int, Any], tuple[CodeType, int]] = {}

    def __enter__(self) -> "Watch":
        self._world.watch = self._note
        return self

    def __exit__(self, *_: object) -> None:
        self._world.watch = self._before

    def _note(self, target: int, name: Any = MISSING) -> None:
        if self._before is not None:
            self._before(target, name)
        code, unit = blame()
        if code is not None:
            self.lines[target, name if type(name) is str else None] = code, unit


@dataclass(frozen=True)
class Purity:
    """What was there before the body."""

    changed: list[Any]
    performed: int
    state: Any
    kept: Any
    effects: frozenset[Any]


def before(calls: "Calls") -> Purity:
    return Purity(
        calls.changed(),
        len(calls.tracer.performed),
        state_of(calls),
        _kept(calls),
        frozenset(key for key, _ in _effects(calls)),
    )


def state_of(calls: "Calls") -> Any:
    """Settings of torch that operators depend on and that a program may change as it runs."""
    with DisableTorchFunction():
        autocast = tuple(
            (torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
            for device in ("cpu", "cuda")
        )
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            autocast,
            torch.get_default_dtype(),
            calls.tensors.state_changes.flags,
            calls.tensors.own.states(),
        )


def _kept(calls: "Calls") -> Any:
    tensors = calls.tensors
    return (
        tensors.state.open,
        len(calls.once),
        len(calls.warned),
        tensors.own.draws.drawn.used,
        len(calls.told),
    )


def _effects(calls: "Calls") -> list[tuple[Any, Effect]]:
    found = []
    for record in list(calls.world.records.values()):
        for change in changes(record) if record.owner is None else ():
            key = type(change), id(record), vars(change).get("name"), vars(change).get("key")
            found.append((key, change))
    return found


def described(calls: "Calls", was: Purity, watch: Watch) -> str | None:
    """What the body has changed of the world, and where; None if nothing."""
    if calls.changed() == was.changed:
        return None
    targets = {id(record.source): record for record in calls.world.records.values()}
    for key, change in _effects(calls):
        if key in was.effects:
            continue
        record = targets.get(id(change.target))
        part = vars(change).get("name") or vars(change).get("key")
        what = f"{change.target}.{part}" if type(part) is str else str(change.target)
        return f"{what}{_line(watch, record, part)}"
    if watch.lines:
        return f"a variable, class or object from outside{_line(watch, None, None)}"
    return "an object from outside"


def _line(watch: Watch, record: Any, part: Any) -> str:
    found = None
    if record is not None:
        found = watch.lines.get((id(record.shadow), part)) or watch.lines.get(
            (id(record.shadow), None)
        )
    if found is None and watch.lines:
        found = list(watch.lines.values())[-1]
    if found is None:
        return ""
    code, unit = found
    line = decode(code).line_of(unit) or code.co_firstlineno
    return f", at {code.co_filename}:{line}"


def does_more(calls: "Calls", was: Purity) -> str | None:
    """What else it does that a graph of its own can't; None if nothing."""
    if len(calls.tracer.performed) != was.performed:
        return "it prints, logs or warns"
    now = state_of(calls)
    if now != was.state:
        return "it leaves torch's state, or that of a tensor, changed"
    if _kept(calls) != was.kept:
        return "it leaves something open, or draws numbers of Python's"
    return None
