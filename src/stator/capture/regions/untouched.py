"""Whether a body does anything but compute.

In: a tracer, and the function that is about to be evaluated as a body. Out: what it has changed, in
words. A body is evaluated once, and runs any number of times, or never: what it changes otherwise
than by its results would happen once.

Objects from before the call tell by themselves (`Calls.changed`). Those that the program has made
in this call are compared: all that the function can come to from its closure, its defaults and its
arguments, and from what the call has put into objects of the world.
"""

import functools
import types
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator.capture.objects.changes import changes
from stator.capture.objects.names import Waiting
from stator.effects.model import values_of
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_DICTS: Final = TypeSet(dict, OrderedDict, defaultdict)
_SEQUENCES: Final = TypeSet(list, tuple, deque, set, frozenset)
_LEFT: Final = TypeSet(
    FakeTensor,
    torch.Size,
    torch.SymInt,
    torch.SymFloat,
    torch.SymBool,
    Waiting,
    types.CodeType,
    types.ModuleType,
)
_EMPTY: Final = object()


class Untouched:
    """What there is when a body begins, to be compared with what there is when it has ended."""

    def __init__(self, calls: "Calls", roots: list[Any]) -> None:
        self._calls = calls
        self._before = self._world()
        self._seen: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._walk([*roots, *self._written()])

    def broken(self) -> str | None:
        """What is different now; None if nothing is."""
        if self._world() != self._before:
            return "changes objects from before the call"
        for value, before in self._seen.values():
            if not _same(before, _parts(value)):
                kind = type(value)
                if kind is types.CellType:
                    return "assigns to a variable of the function around it"
                return f"changes an object of type {kind.__qualname__} that was made outside of it"
        return None

    def _world(self) -> list[Any]:
        tracer = self._calls.tracer
        state = tracer.tensors.state
        performed = len(tracer.performed), len(tracer.tensors.own.steps)
        modes = torch.is_grad_enabled(), state.open
        advanced = [getattr(each, "asked", None) for each in tracer.ahead.rests()]
        graph = tracer.tensors.graph
        taken = len(graph.checks), len(graph.assumptions.facts)
        return [performed, modes, advanced, taken, *self._calls.changed()]

    def _written(self) -> list[Any]:
        """What the program has put into objects of the world, so far."""
        tracer = self._calls.tracer
        found = list(tracer.world.class_writes.values())
        found += [tracer.cells[key] for key in tracer.written_cells]
        for record in list(tracer.world.records.values()):
            if record.owner is None:
                for change in changes(record):
                    found += values_of(change)
        return found

    def _walk(self, waiting: list[Any]) -> None:
        world = self._calls.world
        while waiting:
            value = waiting.pop()
            kind = type(value)
            if id(value) in self._seen or CONSTANTS.holds(kind) or _LEFT.holds(kind):
                continue
            if kind is types.FunctionType:
                # Its code is the world's, maybe, but its cells may be the call's.
                waiting += [*(value.__closure__ or ()), *(value.__defaults__ or ())]
                waiting += (value.__kwdefaults__ or {}).values()
                if id(value) not in world.made:
                    continue
            elif world.is_world(value):
                continue
            parts = _parts(value)
            self._seen[id(value)] = value, parts
            waiting += parts


def _parts(value: Any) -> tuple[Any, ...]:
    """What an object of the call holds, in its order."""
    kind = type(value)
    if kind is types.CellType:
        try:
            return (value.cell_contents,)
        except ValueError:
            return (_EMPTY,)
    if kind is types.MethodType:
        return value.__func__, value.__self__
    if kind is functools.partial:
        return value.func, *value.args, *value.keywords.values()
    found: list[Any] = []
    base = objects.layout_base(kind)
    if _DICTS.holds(base):
        for key, part in base.items(value):  # type: ignore[attr-defined]
            found += key, part
    elif _SEQUENCES.holds(base):
        found += base.__iter__(value)  # type: ignore[attr-defined]
    elif objects.lookup(kind, "__next__") is not None and kind is not types.GeneratorType:
        found.append(_position(value))
    elif kind is types.GeneratorType:
        found.append(value.gi_frame and value.gi_frame.f_lasti)
    own = objects.instance_dict(value)
    if own is not None:
        for name, part in dict.items(own):
            found += name, part
    for descriptor in objects.slots(kind).values():
        try:
            found.append(descriptor.__get__(value))
        except AttributeError:
            found.append(_EMPTY)
    return tuple(found)


def _position(iterator: Any) -> Any:
    """How far an iterator of C has come, if it tells."""
    hint = objects.lookup(type(iterator), "__length_hint__")
    if hint is None or type(hint.value) is not types.MethodDescriptorType:
        return None
    return hint.value(iterator)


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    """A variable that nobody had looked at is something else once somebody has."""
    return len(before) == len(now) and all(
        a is b or type(a) is Waiting or (type(a) is int and type(b) is int and a == b)
        for a, b in zip(before, now, strict=True)
    )
