"""What an iterator gives next, without advancing it.

Stage: effects, at run time, before a continuation. In: an iterator of C with which a program goes
on behind a break. Out: a tuple: the item (`END` if there is none), then the containers that it
depends on. So the continuation knows, by guards on the item, how the loop goes on: one graph has
what comes behind the break in one iteration and before it in the next.

Only iterators that tell what they hold, and that nobody but the program advances: those of lists,
tuples, ranges and dicts, and `enumerate` and `zip` over such. Of any other there is nothing to be
said: the answer is the empty tuple.
"""

import gc
import sys
from collections.abc import Callable
from types import MethodDescriptorType
from typing import Any, Final

from stator import objects


class _End:
    """There is no next item."""

    def __repr__(self) -> str:
        return "the end"


END: Final = _End()

LONGEST: Final = 1000  # dicts whose rest is listed, each time


def _reduces(cls: type) -> Callable[[Any], Any]:
    found = objects.type_dict(cls)["__reduce__"]
    assert type(found) is MethodDescriptorType
    return found


def _of_list(iterator: Any) -> tuple[Any, ...]:
    _, (items,), *index = _LIST(iterator)
    if not index:
        return (END,)
    size, at = list.__len__(items), index[0]
    return (list.__getitem__(items, at) if at < size else END, items)


def _of_reversed(iterator: Any) -> tuple[Any, ...]:
    _, (items,), *index = _REVERSED(iterator)
    if not index or index[0] < 0:
        return (END,)
    at = index[0]
    return (list.__getitem__(items, at) if at < list.__len__(items) else END, items)


def _of_tuple(iterator: Any) -> tuple[Any, ...]:
    _, (items,), *index = _TUPLE(iterator)
    if not index or index[0] >= tuple.__len__(items):
        return (END,)
    return (tuple.__getitem__(items, index[0]),)


def _of_range(iterator: Any) -> tuple[Any, ...]:
    _, (items,), *index = _RANGE(iterator)
    at = index[0] if index and index[0] else 0
    return (items[at] if at < len(items) else END,)


def _of_dict(iterator: Any) -> tuple[Any, ...]:
    held = [each for each in gc.get_referents(iterator) if objects.is_subtype(type(each), dict)]
    if not held:
        return (END,)
    if dict.__len__(held[0]) > LONGEST:
        return ()
    try:
        _, (rest,) = objects.type_dict(type(iterator))["__reduce__"](iterator)
    except RuntimeError:  # it has changed since
        return ()
    return (rest[0] if rest else END, held[0])


def _of_enumerate(iterator: Any) -> tuple[Any, ...]:
    _, (inner, number) = _ENUMERATE(iterator)
    if sys.getrefcount(inner) > ENUMERATED:
        return ()
    found = ahead(inner)
    if not found or found[0] is END:
        return found
    return ((number, found[0]), *found[1:])


def _of_zip(iterator: Any) -> tuple[Any, ...]:
    _, inner, *strict = _ZIP(iterator)
    if any(sys.getrefcount(each) > ZIPPED for each in inner):
        return ()
    found = [ahead(each) for each in inner]
    if not found or not all(found):
        return ()
    items = tuple(each[0] for each in found)
    containers = [held for each in found for held in each[1:]]
    ends = sum(item is END for item in items)
    if ends and strict and ends < len(items):
        return ()  # it will raise
    return (END if ends else items, *containers)


_LIST: Final = _reduces(type(iter([])))
_REVERSED: Final = _reduces(type(reversed([])))
_TUPLE: Final = _reduces(type(iter(())))
_RANGE: Final = _reduces(type(iter(range(0))))
_ENUMERATE: Final = _reduces(enumerate)
_ZIP: Final = _reduces(zip)

_AHEAD: Final[dict[type, Callable[[Any], tuple[Any, ...]]]] = {
    type(iter([])): _of_list,
    type(reversed([])): _of_reversed,
    type(iter(())): _of_tuple,
    type(iter(range(0))): _of_range,
    type(iter({})): _of_dict,
    type(iter({}.values())): _of_dict,
    type(iter({}.items())): _of_dict,
    enumerate: _of_enumerate,
    zip: _of_zip,
}


def ahead(iterator: Any) -> tuple[Any, ...]:
    """The next item or `END`, and the containers; nothing if it can't be told."""
    found = _AHEAD.get(type(iterator))
    return () if found is None else found(iterator)


def advanced(iterator: Any, items: int) -> None:
    """Takes the items that were ahead."""
    for _ in range(items):
        next(iterator, None)


def _held(iterator: Any, reduces: Callable[[Any], Any]) -> int:
    """How often an inner iterator is referred to, if the outer one alone has it."""
    if reduces is _ZIP:
        _, inner, *_ = reduces(iterator)
        return max([sys.getrefcount(each) for each in inner])
    _, (inner, _) = reduces(iterator)
    return sys.getrefcount(inner)


ENUMERATED: Final = _held(enumerate([]), _ENUMERATE)
ZIPPED: Final = _held(zip([], [], strict=True), _ZIP)
