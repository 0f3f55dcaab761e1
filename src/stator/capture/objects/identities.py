"""What must be different objects: the things that the program has changed, and those it has used.

Stage: capture, at the end of a trace. In: the records of the world's objects. Out: guards. In the
trace they were different ones; if in a later call two of them were the same, a change of the one
would be seen in the other, also one that is undone again.

An object keeps its attributes in a dict, which may be an argument as well (`f(o, vars(o))`), or
belong to a second object. That matters only where both are used by the same names, so that is when
it is guarded.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from stator.guards import Fixed, NotAliased, Source
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
