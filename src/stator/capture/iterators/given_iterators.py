"""Iterators that existed before the call.

Stage: capture. In: an iterator of the world that tells what it holds (`effects/rest.py`). Out: its
items, one by one as the program asks for them, and the guard that it would give the same again. The
real one is advanced behind the graph, as often as it was asked (`Advanced`).

An item is a constant, and guarded by its value, or something else that guards can find, from the
iterator, or a tuple of such. Where a loop goes through tensors, it does not matter at which one the
iterator is: the next one is an input.

The trace has an iterator of its own with the items, which C code gets in the place of the real one,
and may keep. Nothing that the real one goes through may have been changed in the call before an
item is taken. Behind the last one, it may.
"""

import operator
from types import CodeType
from typing import Any, Final
from weakref import WeakKeyDictionary

from stator import objects
from stator._native._core import NULL, Frame
from stator.effects.ahead import END, LONGEST
from stator.effects.rest import Item, container, holders, is_constant, rest, same
from stator.guards import Callback, Source, TypeIs
from stator.world import MISSING, World

_VARIANTS: Final = 4  # of what one iterator has given, in calls of one function
_found: Final[WeakKeyDictionary[CodeType, dict[str, set[Any]]]] = WeakKeyDictionary()


def forget(code: CodeType | None = None) -> None:
    """What iterators have given, in calls of one function or of all."""
    if code is None:
        _found.clear()
    else:
        _found.pop(code, None)


class _Same:
    """Whether an iterator would give the same items."""

    def __init__(self, marks: tuple[Any, ...]) -> None:
        self._marks = marks

    def __call__(self, iterator: Any) -> bool:
        found = rest(iterator)
        if found is None:
            return False
        for mark in self._marks:
            item = next(found, None)
            if not same(END if item is None else item.mark, mark):
                return False
        return True


class _Left:
    """Whether an iterator has as many items left."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __call__(self, iterator: Any) -> bool:
        return operator.length_hint(iterator) == self._length


class Rest:
    """What one iterator has given in this trace, and will give."""

    def __init__(self, world: World, raw: Any, source: Source, items: Any, seen: set[Any]) -> None:
        self._world = world
        self._raw = raw
        self._source = source
        self._holders = holders(raw)
        self._rest = items
        self._next: Item | None = None  # looked at, and not yet taken
        self._items: list[Any] = []  # given, or about to be
        self._marks: list[Any] = []
        self._ended = False
        self._seen = seen
        self.iterator: Any = iter(self._items)
        world.origins[id(self.iterator)] = source
        world.keep(self.iterator)

    @classmethod
    def of(cls, world: World, code: CodeType | None, raw: Any) -> "Rest | None":
        """None if it can't be told, or has been something else in too many calls."""
        items = rest(raw)
        if items is None:
            return None
        source = world.origins[id(raw)]
        by_source = {} if code is None else _found.setdefault(code, {})
        seen = by_source.setdefault(str(source), set())
        return None if len(seen) >= _VARIANTS else cls(world, raw, source, items, seen)

    @property
    def asked(self) -> int:
        """How often; once more if it has said that there is nothing left."""
        state = self.iterator.__reduce__()
        return int(state[2]) if len(state) > 2 else len(self._items) + 1

    def is_current(self) -> bool:
        """Whether nothing has been changed that the iterator might go through."""
        changed = [record for record in self._world.records.values() if record.touched]
        if not any(self._may_be(each) for each in changed):
            return True
        found = container(self._raw)
        if found is None:
            return False
        raw, way = found
        assert callable(way)
        shadow = self._world.wrap(raw, way(self._source))
        record = self._world.records.get(id(shadow))
        return record is not None and not record.touched

    def _may_be(self, record: Any) -> bool:
        if any(issubclass(record.base, kind) for kind in self._holders):
            return True
        return dict in self._holders and bool(record.changed_names)

    def _look(self) -> bool:
        """Whether there is another item."""
        if self._next is None and not self._ended:
            self._next = next(self._rest, None)
            self._ended = self._next is None
        return self._next is not None

    def _take(self) -> bool:
        """The next item is wrapped, for whoever asks; False if that can't be."""
        item = self._next
        assert item is not None
        found = self._wrapped(item.value, item.way)
        if found is MISSING:
            return False
        self._next = None
        self._items.append(found)
        self._marks.append(item.mark)
        return True

    def _wrapped(self, value: Any, way: Any) -> Any:
        if way is None:
            return value if is_constant(value) else MISSING
        if type(way) is not tuple:
            return self._world.wrap(value, way(self._source))
        parts = [self._wrapped(*each) for each in zip(value, way, strict=True)]
        return MISSING if any(each is MISSING for each in parts) else tuple(parts)

    def leaves(self) -> list[Any]:
        """The iterators that are advanced: itself."""
        return [self]

    def prepare(self) -> bool:
        """Whether `iterator` has the next item, if there is one."""
        return self.asked != len(self._items) or not self._look() or self._take()

    def next(self, frame: Frame) -> Any:
        """The next item, `NULL` if there is none, MISSING if it can't be had."""
        return next(self.iterator, NULL) if self.prepare() else MISSING

    def all(self) -> bool:
        """Whether all that is left can be had: then `iterator` has it."""
        while self._look():
            if len(self._items) > LONGEST or not self._take():
                return False
        return True

    def length(self) -> int | None:
        """How many items the iterator would say that it has left; guarded by what it says now."""
        if objects.lookup(type(self._raw), "__length_hint__") is None:
            return None
        try:
            length = operator.length_hint(self._raw)
        except TypeError:  # it never ends
            return None
        self._world.guard(self._source, TypeIs(type(self._raw)))
        self._world.guard(self._source, Callback(_Left(length), f"has {length} items left"))
        return max(length - self.asked, 0)

    def ready(self) -> Any:
        """What C code will come to that goes through it."""
        return self._items

    def guard(self) -> None:
        """The iterator gives the same, in a later call."""
        marks = (*self._marks, END)[: self.asked]
        self._seen.add(repr(marks))
        self._world.guard(self._source, TypeIs(type(self._raw)))
        text = f"gives {', '.join(map(repr, marks[:4]))}{', …' if len(marks) > 4 else ''} next"
        self._world.guard(self._source, Callback(_Same(marks), text))
