"""What the program has changed in an object of the world.

In: the record of a shadow. Out: effects: how the shadow differs from what it was filled with.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from decimal import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from stator import objects
from stator._native import _core as core
from stator.capture.library.decimals import changes_of
from stator.effects import (
    ArrayContents,
    AttrDel,
    AttrSet,
    ByteArrayContents,
    DequeContents,
    DictContents,
    Effect,
    KeySet,
    ListContents,
    ListExtended,
    Passed,
    SetContents,
    SlotDel,
    SlotSet,
    StateSet,
)
from stator.effects.exits import earlier, entries
from stator.effects.model import values_of
from stator.objects.sets import layout
from stator.objects.tracebacks import TRACEBACK
from stator.world import MISSING, Record
from stator.world.records import DICTS, MAXLEN, OF_PARTIAL, SET_PARTIAL, SETS, TYPECODE, pairs

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


def changes(record: Record) -> Iterator[Effect]:
    """The net changes of one object."""
    yield from _contents(record)
    yield from _attributes(record)
    yield from _slots(record)
    yield from _passed(record)


def written(tracer: "Tracer") -> list[Any]:
    """What the program has changed so far, to be compared with what it has changed later."""
    world = tracer.world
    found: list[Any] = []
    for record in list(world.records.values()):
        for change in changes(record) if record.owner is None else ():
            values = list(values_of(change))
            world.keep(values)
            name = change.__dict__.get("name")
            found.append((type(change), id(record), name, *map(id, values)))
    found += [(key, id(value)) for key, value in world.class_writes.items()]
    found += [(key, id(tracer.cells[key])) for key in tracer.written_cells]
    return found


def _contents(record: Record) -> Iterator[Effect]:
    if record.grown:
        yield ListExtended(record.source, tuple(list.__iter__(record.shadow)))
    if not record.filled:
        for key in record.items:
            if key in record.writes:
                yield KeySet(record.source, key, record.items[key])
        return
    if record.initial is None:
        return
    shadow, base = record.shadow, record.base
    if base is partial:
        yield from _state(record)
    elif base is Context:
        yield from changes_of(record)
    elif base is bytearray:
        content = bytes(bytearray.__iter__(shadow))
        if content != record.initial:
            yield ByteArrayContents(record.source, content)
    elif base is array:
        if array.tobytes(shadow) != record.initial:
            exact = array(TYPECODE.__get__(shadow), array.tobytes(shadow))
            yield ArrayContents(record.source, exact)
    elif DICTS.holds(base):
        now = pairs(shadow, base)
        if not _same_pairs(now, record.initial):
            yield DictContents(record.source, tuple(now))
    elif SETS.holds(base):
        items, before = list(set.__iter__(shadow)), list(record.initial)
        if not _same_items(items, before) or not core.set_lies_as(shadow, record.initial):
            yield SetContents(record.source, tuple(items), layout(shadow))
    else:
        items = list(base.__iter__(shadow))  # type: ignore[attr-defined]
        if base is deque and MAXLEN.__get__(shadow) != record.limit:
            yield DequeContents(record.source, tuple(items), (MAXLEN.__get__(shadow),))
        elif not _same_items(items, record.initial):
            kind = DequeContents if base is deque else ListContents
            yield kind(record.source, tuple(items))


def _state(record: Record) -> Iterator[Effect]:
    """A partial whose parts were replaced, all at once, and its attributes with them."""
    own = objects.instance_dict(record.shadow)
    now = [part.__get__(record.shadow) for part in OF_PARTIAL]
    if not _same_items(now, list(record.initial)) or own is not record.dict:
        yield StateSet(record.source, SET_PARTIAL, (*now, own))


def _same_items(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _same_pairs(now: list[tuple[Any, Any]], before: list[tuple[Any, Any]]) -> bool:
    return len(now) == len(before) and all(
        a is c and b is d for (a, b), (c, d) in zip(now, before, strict=True)
    )


def _attributes(record: Record) -> Iterator[Effect]:
    own = record.dict
    if own is None or (record.base is partial and _has_other_dict(record)):
        return
    cls = type(record.shadow)
    raw = record.raw_dict or {}
    again = _entered_again(record, own, raw)
    for name, before in record.attributes.items():
        if name in raw and (name in again or (name not in own and before is not MISSING)):
            yield AttrDel(record.source, name, cls)
    for name, value in list(own.items()):
        if name in again or record.attributes.get(name, MISSING) is not value:
            yield AttrSet(record.source, name, value, cls)


def _has_other_dict(record: Record) -> bool:
    return objects.instance_dict(record.shadow) is not record.dict


def _entered_again(record: Record, own: dict[str, Any], raw: dict[str, Any]) -> set[str]:
    """Attributes that were deleted and set again: they are the last ones now."""
    if not record.attributes_filled:
        return {name for name in record.deleted if name in own and name in raw}
    # A dict that was filled is in the raw one's order, up to where entries were made anew.
    places = {name: place for place, name in enumerate(raw)}
    last = -1
    again: set[str] = set()
    for name in own:
        place = places.get(name, -1)
        if again or place < last:
            again.add(name)
        last = max(place, last) if place >= 0 else len(places)
    return again & places.keys()


def _passed(record: Record) -> Iterator[Effect]:
    """An exception was raised in the call, or given another traceback."""
    if not objects.is_subtype(record.base, BaseException):
        return
    shadow = record.shadow
    if TRACEBACK.__get__(shadow) is not record.traceback:
        yield Passed(record.source, entries(shadow), earlier(shadow))


def _slots(record: Record) -> Iterator[Effect]:
    for descriptor, before in record.fields:
        now = descriptor.__get__(record.shadow)
        if now is not before:
            yield SlotSet(record.source, descriptor, now)
    if record.slots is None:
        return
    for name, descriptor in objects.slots(type(record.shadow)).items():
        try:
            now = descriptor.__get__(record.shadow)
        except AttributeError:
            now = MISSING
        before = record.slots[name]
        if now is before:
            continue
        if now is MISSING:
            yield SlotDel(record.source, descriptor)
        else:
            yield SlotSet(record.source, descriptor, now)
