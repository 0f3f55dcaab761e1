"""Iterators with which a program goes on behind a break.

Stage: capture. In: for each such iterator what it gives next (`effects/ahead.py`), as a value of
its own with a source. Out: that item, once, when the program advances the iterator; and the effect
that the real one is advanced, before all others.

The item is what the iterator would have given when the continuation began. It is right as long as
nothing has changed the container since, which the trace would know: the containers are values with
sources, too, and what is changed must be distinct from them (`distinct`).

Of an iterator that was given to the call, all items are known (`rests`).
"""

from collections.abc import Callable, Collection, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

from stator._native._core import NULL, Frame
from stator.bytecode import decode
from stator.bytecode.liveness import live
from stator.capture.iterators.composed_iterators import Driven
from stator.capture.iterators.given_iterators import Rest
from stator.capture.trace.refusals import unseen
from stator.diagnostics.catalogue import IteratorInUse
from stator.effects import Advanced, Effect
from stator.effects.ahead import END
from stator.guards import Index, Is, IsNot, Length, NotAliased, Source, TypeIs
from stator.world import MISSING
from stator.world.kinds import CONSTANTS
from stator.world.records import DICTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def _stored(frame: Frame) -> list[bool]:
    """The variables that the next instructions store an item into, or its parts: which are read.

    Empty if they do something else with it.
    """
    decoded = decode(frame.code)
    step = decoded.at(int(frame.ip))
    count = 1
    if step.name == "UNPACK_SEQUENCE":
        count = step.arg
        step = decoded.at(step.next)
    stored = []
    for _ in range(count):
        if step.name != "STORE_FAST":
            return []
        stored.append(step.arg)
        step = decoded.at(step.next)
    needed = live(frame.code, step.unit)
    # A variable that is stored twice holds the last one.
    last = {variable: place for place, variable in enumerate(stored)}
    return [v in needed and last[v] == place for place, v in enumerate(stored)]


class Ahead:
    """What is known of iterators that existed before the trace."""

    def __init__(self, calls: "Calls", code: Callable[[], CodeType | None]) -> None:
        self._calls = calls
        self._world = calls.world
        self._code = code  # of the function that is traced
        self._known: dict[int, tuple[tuple[Any, ...], Source]] = {}  # by id of the iterator
        self._behind_break: set[int] = set()
        self._rests: dict[int, Rest | Driven] = {}  # of iterators that were given to the call
        self._advanced: dict[int, int] = {}  # how often
        self.kept: list[tuple[Rest | Driven, int]] = []  # by C objects, since which step

    def know(self, iterator: Any, found: tuple[Any, ...], source: Source) -> None:
        """An iterator, and what is ahead of it, at a source."""
        if id(iterator) in self._world.opaque:
            self._known.setdefault(id(iterator), (found, source))
            self._behind_break.add(id(iterator))

    def iterates(self, value: Any) -> bool:
        """Whether it is an iterator of the world whose items are known."""
        return id(value) in self._world.opaque and (
            id(value) in self._behind_break or self._rest(value) is not None
        )

    def _rest(self, iterator: Any) -> "Rest | Driven | None":
        if id(iterator) in self._behind_break:
            return None  # one item at a time: what comes next may be in another graph
        known = self._rests.get(id(iterator))
        if known is None and id(iterator) in self._world.opaque:
            known = Rest.of(self._world, self._code(), iterator)
            known = known or Driven.of(self._calls, iterator, self._rest)
            if known is not None:
                self._rests[id(iterator)] = known
        return known

    def _next_given(self, frame: Frame, iterator: Any) -> Any:
        """Of an iterator that was given to the call."""
        found = self._rest(iterator)
        item = found.next(frame) if found is not None and found.is_current() else MISSING
        if item is MISSING:
            raise unseen(self._world, iterator, "{} is advanced")
        return item

    def lent(self, value: Any) -> "Rest | Driven | None":
        """An iterator for C code, in the place of one of the world; None if there is none."""
        found = self._rest(value) if id(value) in self._world.opaque else None
        if found is None or not found.is_current() or not found.all():
            return None
        return found

    def length(self, iterator: Any) -> int | None:
        """How many items it says that it has left; None if it does not say, or can't be told."""
        found = self._rest(iterator) if id(iterator) in self._world.opaque else None
        if type(found) is not Rest or not found.is_current():
            return None
        return found.length()

    def given(self, value: Any, *, calls: bool = False) -> Any:
        """What C code is given that goes through a value, and does not keep it."""
        if not self.iterates(value):
            return value
        found = self.lent(value)
        if found is None:
            raise unseen(self._world, value, "{} is advanced")
        if calls or type(found) is Driven:  # what is called may change what is iterated over
            self.kept.append((found, self._calls.tracer.steps - 1))
        return found.iterator

    def next(self, frame: Frame, iterator: Any) -> Any:
        """The next item, NULL if there is none."""
        known = self._known.pop(id(iterator), None)
        if known is None:
            return self._next_given(frame, iterator)
        found, source = known
        world = self._world
        world.guard(source, TypeIs(tuple))
        world.guard(source, Length(len(found)))
        if not found:
            raise unseen(world, iterator, "{} is advanced")
        item, *containers = found
        for position, raw in enumerate(containers, 1):
            stand_in = world.wrap(raw, Index(source, position))
            record = world.records.get(id(stand_in))
            if record is None or record.touched or (DICTS.holds(record.base) and self._written()):
                raise unseen(world, iterator, "{} is advanced")
        self._advanced[id(iterator)] = 1
        if item is END:
            world.guard(Index(source, 0), Is(END))
            return NULL
        return self._wrapped(item, Index(source, 0), _stored(frame))

    def _wrapped(self, item: Any, source: Source, variables: list[bool]) -> Any:
        """The item; constants in it that go into variables which nobody reads are not guarded."""
        if CONSTANTS.holds(type(item)) and variables == [False]:
            self._world.guard(source, IsNot(END))
            return item
        if type(item) is not tuple or len(variables) != len(item) or all(variables):
            return self._world.wrap(item, source)
        self._world.guard(source, TypeIs(tuple))
        self._world.guard(source, Length(len(item)))
        parts = [
            part
            if CONSTANTS.holds(type(part)) and not read
            else self._world.wrap(part, Index(source, position))
            for position, (part, read) in enumerate(zip(item, variables, strict=True))
        ]
        return tuple(parts)

    def _written(self) -> bool:
        """Whether any dict or any attributes have been changed: one dict may be behind both."""
        records = self._world.records.values()
        return any(r.touched and (r.changed_names or DICTS.holds(r.base)) for r in records)

    def _check_kept(self) -> None:
        """Whoever keeps an iterator has the items that were there at the time."""
        for found, step in self.kept:
            if not found.is_current():
                self._calls.tracer.before = step
                raise IteratorInUse("C code keeps an iterator over what is changed in the call")

    def rests(self) -> Collection[object]:
        """How far the iterators have come, those that were asked."""
        return self._rests.values()

    def effects(self) -> Iterator[Effect]:
        """The iterators are advanced; no two of them may be the same one in a later call."""
        world = self._world
        self._check_kept()
        for key, found in self._rests.items():
            if type(found) is Rest and found.asked:
                found.guard()
                self._advanced[key] = found.asked
        for key, times in self._advanced.items():
            mine = world.origins[key]
            others = tuple(
                source
                for other, source in world.origins.items()
                if other != key and world.opaque.get(other) == world.opaque[key]
            )
            if others:
                world.guard(mine, NotAliased(others))
            yield Advanced(mine, times)
