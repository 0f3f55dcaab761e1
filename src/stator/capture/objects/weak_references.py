"""Weak references in a trace: what they tell depends on who else holds an object.

In: a weak reference that is made or asked, a trace that is to be split, an object that has let go
of others. Out: the reference, or what it refers to. Objects of a trace may live longer than those
of the program (the tracer holds tensors, functions, generators, all stand-ins), and those that a
continuation is given live as long as its call. Where that could be seen, the frame runs as it is.
"""

import logging
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import run
from stator.capture.iterators.abandoned_generators import GENERATORS
from stator.capture.objects.changes import changes
from stator.capture.objects.weak_callbacks import behind
from stator.contracts import lookup
from stator.diagnostics.catalogue import Finalizer
from stator.guards.sources import Referent
from stator.world import Record
from stator.world.identity import variables
from stator.world.kinds import CONSTANTS
from stator.world.wrappers import field_source

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NEW: Final = objects.type_dict(weakref.ref)["__new__"]
CALLBACK: Final[Any] = objects.type_dict(weakref.ref)["__callback__"]
_LISTS: Final = objects.TypeSet(list, set, deque)
_WALKED: Final = objects.TypeSet(list, tuple, dict)
_PROXIES: Final = objects.TypeSet(*weakref.ProxyTypes)
_DEEPEST: Final = 4  # how far objects that were let go are looked into


def referent(calls: "Calls", reference: Any) -> Any:
    """What a weak reference refers to now."""
    found = weakref.ref.__call__(reference)
    if found is not None and _unsure(calls, found):
        tensor = calls.tensors.holds(type(found))
        kind = "Tensor" if tensor else type(found).__qualname__
        raise Finalizer(f"whether an object of type {kind} is still alive matters", whole=True)
    return found


def is_reference(calls: "Calls", cls: type) -> bool:
    """Whether instances are weak references, which are called as such."""
    if cls is weakref.ref:
        return True
    if not objects.is_subtype(cls, weakref.ref):
        return False
    found = calls.world.class_attribute(cls, "__call__")
    return found is not None and found.owner is weakref.ref


def callback(calls: "Calls", reference: Any) -> Any:
    """What a weak reference calls, as the program knows it."""
    source = calls.world.origins.get(id(reference))
    if source is not None:
        record = calls.world.records.get(id(reference))
        held = CALLBACK.__get__(reference if record is None else record.raw)
        return calls.world.wrap(held, field_source(source, CALLBACK))
    held = CALLBACK.__get__(reference)
    mine = behind(held)
    return calls.stand_ins.get(id(held), held) if mine is None else mine


def check_split(calls: "Calls") -> None:
    """The trace is to be split: objects that are referred to weakly would live on."""
    if any(weakref.ref.__call__(each) is not None for each in calls.references):
        raise Finalizer("an object made in the call is weakly referenced", whole=True)


def check_forgotten(calls: "Calls", record: Record) -> None:
    """A container of weak references is used: it has lost those whose objects have died."""
    if not any(map(_is_changed, calls.world.records.values())):
        return
    for target in record.weak:
        if _unsure(calls, target):
            kind = type(target).__qualname__
            reason = f"weak references to objects of type {kind}, which may have died, are used"
            raise Finalizer(reason, whole=True)


def _unsure(calls: "Calls", value: Any) -> bool:
    """Whether it may have died in the program."""
    world, cls = calls.world, type(value)
    source = world.origins.get(id(value))
    if source is None:
        held = cls is types.FunctionType or GENERATORS.holds(cls) or objects.is_subtype(cls, type)
        if objects.is_subtype(cls, logging.Handler):
            return True  # what it gets is put off (`logged`): the frame runs as it is
        return held or calls.tensors.holds(cls) or id(value) in calls.told or world.keeps(value)
    records = {id(record.source): record for record in world.records.values()}
    while source is not None:
        if type(source) is Referent:  # who holds it is not known: somebody does, who did
            changed = [record for record in records.values() if _is_changed(record)]
            gone = (each for record in changed for each in _gone(calls, record))
            return any(_may_hold(calls, each, value, _DEEPEST) for each in gone)
        record = None if source.base is None else records.get(id(source.base))
        if record is not None:
            if _is_changed(record) and not any(each is value for each in _contents(record)):
                return True
            value = record.shadow
        source = source.base
    return False


def _gone(calls: "Calls", record: Record) -> Iterator[Any]:
    """What an object has held before the call, and does not any more, as it is in the world."""
    raw, own = record.raw, record.raw_dict or {}
    held = {id(each) for each in _contents(record)}
    before = [own[name] for name in own if name in record.deleted or name in (record.dict or ())]
    before += [value for _, value in record.fields]
    before += (record.slots or {}).values()
    if objects.is_subtype(record.base, dict):
        names = dict.keys(raw) if record.filled else record.writes
        before += [dict.get(raw, name) for name in names]
    elif _LISTS.holds(record.base) and record.filled:
        before += record.base.__iter__(raw)  # type: ignore[attr-defined]
    for each in before:
        if id(calls.world.stand_ins.get(id(each), each)) not in held:
            yield each


def let_go(calls: "Calls") -> Iterator[Any]:
    """What objects of the world do not hold any more."""
    for record in list(calls.world.records.values()):
        if _is_changed(record):
            yield from _gone(calls, record)


def _may_hold(calls: "Calls", raw: Any, target: Any, depth: int) -> bool:
    """Whether an object of the world may keep this one alive."""
    cls = type(raw)
    if calls.world.stand_ins.get(id(raw), raw) is target:
        return True
    if CONSTANTS.holds(cls) or cls is torch.Tensor or cls is torch.nn.Parameter:
        return False
    parts = _parts(raw, cls) if depth else None
    if parts is None:
        return True
    return any(_may_hold(calls, each, target, depth - 1) for each in parts)


def _parts(raw: Any, cls: type) -> list[Any] | None:
    """What an object of the world holds; None if that is not known."""
    if _WALKED.holds(cls):
        return list(dict.values(raw)) if cls is dict else list(raw)
    if cls is types.BuiltinFunctionType:
        bound = raw.__self__
        return None if bound is not None and type(bound) is not types.ModuleType else []
    if cls is types.FunctionType:
        cells = [cell.cell_contents for _, cell in variables(raw) if _is_full(cell)]
        return [*cells, *(raw.__defaults__ or ()), *(raw.__kwdefaults__ or {}).values()]
    if objects.is_subtype(cls, weakref.ref):  # not what it refers to
        own = objects.instance_dict(raw) or {}
        slots = [slot.__get__(raw) for slot in objects.slots(cls).values() if _is_set(slot, raw)]
        return [CALLBACK.__get__(raw), *own.values(), *slots]
    return None


def _is_set(slot: Any, raw: Any) -> bool:
    try:
        slot.__get__(raw)
    except AttributeError:
        return False
    return True


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_changed(record: Record) -> bool:
    return next(changes(record), None) is not None


def _contents(record: Record) -> list[Any]:
    """What an object holds now."""
    shadow: Any = record.shadow
    found = [] if record.filled else list(record.items.values())
    found += (record.dict or {}).values()
    if objects.is_subtype(record.base, dict):
        found += [*dict.keys(shadow), *dict.values(shadow)]
    elif _LISTS.holds(record.base):
        found += record.base.__iter__(shadow)  # type: ignore[attr-defined]
    for descriptor in objects.slots(type(shadow)).values():
        try:
            found.append(descriptor.__get__(shadow))
        except AttributeError:
            continue
    return found


def check_dropped(record: Record) -> None:
    """An object of the world has changed: what it has let go may have a finalizer, which would run
    when the change is written.
    """
    before = [*record.items.values(), *record.attributes.values(), *(record.slots or {}).values()]
    held = record.initial or ()
    if objects.is_subtype(record.base, dict):
        before += [part for pair in held for part in pair]
    elif _LISTS.holds(record.base):
        before += held
    final = [each for each in before if objects.lookup(type(each), "__del__") is not None]
    if not final:
        return
    now = {id(each) for each in _contents(record)}
    for each in final:
        if id(each) not in now:
            kind = type(each).__qualname__
            reason = f"an object of class {kind}, which has a finalizer, is let go"
            raise Finalizer(reason, whole=True)


def _make(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A weak reference is made; `args` begin with its class if `__new__` is called."""
    target, *rest = args[1:] if function is _NEW else args or (None,)
    made = _can_be_referred_to(target) and not calls.world.is_world(target)
    if rest and rest[0] is not None:
        if made and _unsure(calls, target):
            kind = type(target).__qualname__
            reason = f"a weak reference with a callback is made, to a new object of type {kind}"
            raise Finalizer(reason, whole=True)
        with_callback = calls.deaths.expect(target, rest[0]) if made else _silenced(calls, rest[0])
        args = [*args[: len(args) - len(rest)], with_callback, *rest[1:]]
    contract = lookup(function)
    assert contract is not None
    result = run(calls, frame, function, [*args, *kwargs.values()], tuple(kwargs), contract)
    if made and (objects.is_subtype(type(result), weakref.ref) or _PROXIES.holds(type(result))):
        calls.references.append(weakref.ref(target))
    return result


def _can_be_referred_to(value: Any) -> bool:
    """Whether there are weak references to objects of this type; if not, CPython says so."""
    try:
        weakref.ref(value)
    except TypeError:
        return False
    return True


def _silenced(calls: "Calls", callback: Any) -> Any:
    """What stands for a callback: what stands for an object dies with the trace, and the program
    must not hear of that.
    """

    def silent(reference: Any) -> None:
        """Nobody has died."""

    calls.made[id(silent)] = silent  # type: ignore[assignment]
    calls.stand_ins[id(silent)] = callback
    calls.world.keep(silent)
    return silent


WEAK: Final[dict[int, Handler]] = {id(each): _make for each in (weakref.ref, _NEW, weakref.proxy)}
