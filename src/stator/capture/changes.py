"""What the program has changed in an object of the world.

In: the record of a shadow. Out: effects: how the shadow differs from what it was filled with.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from stator import objects
from stator.effects import (
    AttrDel,
    AttrSet,
    ByteArrayContents,
    DequeContents,
    DictContents,
    Effect,
    KeySet,
    ListContents,
    ListExtended,
    SetContents,
    SlotDel,
    SlotSet,
)
from stator.world import MISSING, Record
from stator.world.records import DICTS, SETS, pairs


def changes(record: Record) -> Iterator[Effect]:
    """The net changes of one object."""
    yield from _contents(record)
    yield from _attributes(record)
    yield from _slots(record)


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
    if base is bytearray:
        content = bytes(bytearray.__iter__(shadow))
        if content != record.initial:
            yield ByteArrayContents(record.source, content)
    elif DICTS.holds(base):
        now = pairs(shadow, base)
        if not _same_pairs(now, record.initial):
            yield DictContents(record.source, tuple(now))
    elif SETS.holds(base):
        items = list(set.__iter__(shadow))
        if len(items) != len(record.initial) or any(item not in record.initial for item in items):
            yield SetContents(record.source, tuple(items))
    else:
        items = list(base.__iter__(shadow))  # type: ignore[attr-defined]
        if not _same_items(items, record.initial):
            kind = DequeContents if base is deque else ListContents
            yield kind(record.source, tuple(items))


def _same_items(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _same_pairs(now: list[tuple[Any, Any]], before: list[tuple[Any, Any]]) -> bool:
    return len(now) == len(before) and all(
        a is c and b is d for (a, b), (c, d) in zip(now, before, strict=True)
    )


def _attributes(record: Record) -> Iterator[Effect]:
    own = record.dict
    if own is None:
        return
    cls = type(record.shadow)
    for name, value in list(own.items()):
        if record.attributes.get(name, MISSING) is not value:
            yield AttrSet(record.source, name, value, cls)
    for name, before in record.attributes.items():
        if name not in own and before is not MISSING:
            raw = record.raw_dict
            if raw is not None and name in raw:
                yield AttrDel(record.source, name, cls)


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
