"""What must be different objects: the things that the program has changed, and those it has used.

Stage: capture, at the end of a trace. In: the records of the world's objects. Out: guards. In the
trace they were different ones; if in a later call two of them were the same, a change of the one
would be seen in the other, also one that is undone again.

An object keeps its attributes in a dict, which may be an argument as well (`f(o, vars(o))`), or
belong to a second object. That matters only where both are used by the same names, so that is when
it is guarded.

A nan is equal to nothing, but containers find it by its identity. So where a trace has met several
nans, it is guarded which of them are the same object.
"""

import operator
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from stator.guards import Aliased, Callback, Equal, Fixed, Is, Keys, NotAliased, Source
from stator.objects import TypeSet, layout_base
from stator.world import Record, World
from stator.world.records import DICTS, dict_source


def guard_distinct(world: World, changed: Record, records: list[Record]) -> None:
    """What was changed must not be something else, too, in a later call."""
    cls = type(changed.shadow)
    others = tuple(
        other.source
        for other in records
        if other is not changed
        and type(other.shadow) is cls
        and not (type(other.source) is Fixed and type(changed.source) is Fixed)
    )
    ways: dict[int, dict[str, Source]] = {}  # of one object, there may be several
    for raw, source in world.reached:
        if type(raw) is cls and id(raw) not in world.stand_ins:
            ways.setdefault(id(raw), {}).setdefault(str(source), source)
    others += tuple(next(iter(each.values())) for each in ways.values())
    if others:
        world.guard(changed.source, NotAliased(others))
    for each in ways.values():
        for way in list(each.values())[1:]:
            world.guard(changed.source, NotAliased((way,)))
    for mine in _namespaces(changed):
        if not mine.changed:
            continue
        shared = tuple(
            theirs.source
            for other in records
            if other is not changed
            for theirs in _namespaces(other)
            if mine.changed & theirs.used and (mine.of_object or theirs.of_object)
        )
        if shared:
            world.guard(mine.source, NotAliased(shared))


def guard_nans(world: World) -> None:
    """Of several nans that the trace was given, which of them are one object."""
    alone: dict[str, tuple[Source, Any]] = {}
    inside: list[tuple[Source, Any]] = []
    fixed = 0
    for guard in world.guards:
        check, source = guard.check, guard.source
        if type(check) is Equal and source is not None:
            constant = check.constant
            if type(constant) is float or type(constant) is complex:
                if constant != constant and type(source) is Fixed:
                    fixed += 1
                elif constant != constant:
                    alone.setdefault(str(source), (source, constant))
            elif _FROZEN.holds(type(constant)) and any(_nans(constant)):
                inside.append((source, constant))
        elif type(check) is Keys and source is not None and any(_nans(check.keys)):
            inside.append((source, check.keys))
    if len(alone) + fixed + 2 * len(inside) < 2:
        return
    for source, constant in inside:
        world.guard(source, Callback(_Holding(constant), "the same nans"))
    firsts: dict[int, Source] = {}
    for source, nan in alone.values():
        if inside or fixed:
            world.guard(source, Is(nan))
        elif id(nan) in firsts:
            world.guard(source, Aliased((firsts[id(nan)],)))
        else:
            firsts[id(nan)] = source
    first, *others = firsts.values() or (None,)
    if first is not None and others:
        world.guard(first, NotAliased(tuple(others)))


_FROZEN: Final = TypeSet(tuple, frozenset)


class _Holding:
    """A guard: the nans in a container are these objects. The others are compared elsewhere."""

    def __init__(self, container: Any) -> None:
        self._nans = list(_nans(container))

    def __call__(self, container: Any) -> bool:
        found = list(_nans(container))
        return len(found) == len(self._nans) and all(map(operator.is_, found, self._nans))


def _nans(container: Any) -> Iterator[Any]:
    """The nans that are in a constant, in a dict as keys, or in a set."""
    base: Any = layout_base(type(container))
    for item in base.__iter__(container):
        cls = type(item)
        if cls is float or cls is complex:
            if item != item:
                yield item
        elif _FROZEN.holds(cls):
            yield from _nans(item)


class _Namespace(NamedTuple):
    """A dict that is used by names."""

    source: Source
    changed: set[Any]
    used: set[Any]
    of_object: bool = False
    """Whether an object keeps its attributes there."""


def _namespaces(record: Record) -> Iterator[_Namespace]:
    names = record.changed_names
    if DICTS.holds(record.base):
        used = {*record.items, *record.absent, *names}
        if record.filled:
            used.update(key for key in dict.__iter__(record.shadow) if type(key) is str)
            used.update(key for key, _ in record.initial or () if type(key) is str)
        changed = used if record.filled and record.touched else record.writes | names
        yield _Namespace(record.source, changed, used)
    own = record.dict
    if own or record.attributes:
        source = dict_source(record)
        if source is not None:
            used = {*record.attributes, *(own or ()), *names}
            yield _Namespace(source, names, used, of_object=True)
