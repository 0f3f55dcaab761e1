"""Iterators that existed before the call, and have constants to give.

Stage: capture. In: an iterator of the world that tells what it holds (`effects/rest.py`). Out: its
items, one by one as the program asks for them, and the guard that it would give the same again. The
real one is advanced behind the graph, as often as it was asked (`Advanced`).

Guards have no way to an item, so that it must be a constant, or a tuple of such. The container is
not known to the trace, either: nothing of its kind may have been changed in the call before an item
is taken. Behind the last one, it may.
"""

import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from stator.effects.ahead import END, LONGEST
from stator.effects.rest import holders, rest
from stator.guards import Callback, Source, TypeIs
from stator.world import MISSING, World
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.ahead import Ahead

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

    def __init__(self, items: tuple[Any, ...]) -> None:
        self._items = items

    def __call__(self, iterator: Any) -> bool:
        found = rest(iterator)
        return found is not None and all(_same(next(found, END), each) for each in self._items)


def _same(one: Any, other: Any) -> bool:
    """Whether two items are the same constant, or tuples of the same ones."""
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or (CONSTANTS.holds(type(one)) and repr(one) == repr(other))


def _is_constant(item: Any) -> bool:
    if type(item) is tuple:
        return all(map(_is_constant, item))
    return bool(CONSTANTS.holds(type(item)))


class Rest:
    """What one iterator has given in this trace, and will give."""

    def __init__(self, world: World, iterator: Any, items: Any, seen: set[Any]) -> None:
        self._world = world
        self._kind = type(iterator)
        self._holders = holders(iterator)
        self._items = items
        self._ahead: list[Any] = []  # what was looked at, and not yet given
        self._given: list[Any] = []
        self._seen = seen

    @classmethod
    def of(cls, world: World, code: CodeType | None, iterator: Any) -> "Rest | None":
        """None if it can't be told, or has been something else in too many calls."""
        items = rest(iterator)
        if items is None:
            return None
        by_source = {} if code is None else _found.setdefault(code, {})
        seen = by_source.setdefault(str(world.origins.get(id(iterator))), set())
        return None if len(seen) >= _VARIANTS else cls(world, iterator, items, seen)

    @property
    def asked(self) -> int:
        return len(self._given)

    def is_current(self) -> bool:
        """Whether nothing has been changed that the iterator might go through."""
        for record in self._world.records.values():
            if record.touched and any(issubclass(record.base, kind) for kind in self._holders):
                return False
            if record.touched and dict in self._holders and record.changed_names:
                return False
        return True

    def next(self) -> Any:
        """The next item, `END`, or MISSING if it is no constant."""
        item = self._ahead.pop(0) if self._ahead else next(self._items, END)
        if item is not END and not _is_constant(item):
            self._ahead.insert(0, item)
            return MISSING
        self._given.append(item)
        return item

    def all(self) -> list[Any] | None:
        """All that is left; None if that is too much, or not all of it is constant."""
        while len(self._ahead) <= LONGEST:
            item = next(self._items, END)
            if item is END:
                return list(self._ahead) if all(map(_is_constant, self._ahead)) else None
            self._ahead.append(item)
        return None

    def guard(self, source: Source) -> None:
        """The iterator gives the same, in a later call."""
        given = tuple(self._given)
        self._seen.add(repr(given))
        self._world.guard(source, TypeIs(self._kind))
        text = f"gives {', '.join(map(repr, given[:4]))}{', …' if len(given) > 4 else ''} next"
        self._world.guard(source, Callback(_Same(given), text))


class Lent:
    """An iterator that C code gets, and the one whose items it gives."""

    def __init__(self, ahead: "Ahead", raw: Any, found: Rest, items: list[Any]) -> None:
        self._ahead, self._raw, self._rest, self._items = ahead, raw, found, items
        self.iterator = iter(items)

    def is_kept(self) -> bool:
        """Whether somebody else has it: C code has put it into something."""
        return sys.getrefcount(self.iterator) > 2

    def settle(self) -> None:
        """C code has returned, or raised: the real one is advanced as far."""
        state: Any = self.iterator.__reduce__()
        times: int = state[2] if len(state) > 2 else len(self._items) + 1
        self._ahead.taken(self._raw, self._rest, times)
