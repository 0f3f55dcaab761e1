"""All that an iterator will give, without advancing it.

Stage: effects, at run time, in guards, and while tracing. In: an iterator of C that existed before
the call. Out: another one, which gives the same, and leaves the first where it is.

Only iterators that tell what they hold, and that nobody but the program advances: those of lists,
tuples, ranges, texts, dicts and sets, and `enumerate` and `zip` over such.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from stator import objects
from stator.effects.ahead import ENUMERATED, LONGEST, ZIPPED


def rest(iterator: Any) -> Iterator[Any] | None:
    """An iterator with the same items; None if that can't be told."""
    found = _RESTS.get(type(iterator))
    return None if found is None else found(iterator)


def holders(iterator: Any) -> frozenset[type]:
    """The kinds of containers whose changes such an iterator would see."""
    kinds = _KINDS.get(type(iterator))
    if kinds is not None:
        return frozenset(kinds)
    _, given, *_ = _reduced(iterator)
    inner = given[:1] if type(iterator) is enumerate else given
    return frozenset(kind for each in inner for kind in holders(each))


def _reduced(iterator: Any) -> Any:
    return objects.type_dict(type(iterator))["__reduce__"](iterator)


def _indexed(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of something with places; `make` makes a new iterator."""

    def found(iterator: Any) -> Any:
        _, (items,), *index = _reduced(iterator)
        made = make(items)
        if index and index[0] is not None:
            made.__setstate__(index[0])
        elif not index:
            for _ in made:  # it has ended, and does not begin anew if there is more
                pass
        return made

    return found


def _listed(iterator: Any) -> Any:
    """Of a dict or set: the rest is listed, unless it has changed since, which is an error."""
    held = [each for each in gc.get_referents(iterator) if type(each) in _COUNTED]
    if any(_COUNTED[type(each)](each) > LONGEST for each in held):
        return None
    try:
        _, (items,) = _reduced(iterator)
    except RuntimeError:
        return None
    return iter(items)


def _enumerated(iterator: Any) -> Any:
    _, (inner, number) = _reduced(iterator)
    if sys.getrefcount(inner) > ENUMERATED:
        return None
    made = rest(inner)
    return None if made is None else enumerate(made, number)


def _zipped(iterator: Any) -> Any:
    _, inner, *strict = _reduced(iterator)
    if strict or any(sys.getrefcount(each) > ZIPPED for each in inner):
        return None  # a strict one may raise
    made = [rest(each) for each in inner]
    return None if None in made else zip(*made, strict=False)


_COUNTED: Final[dict[type, Callable[[Any], int]]] = {dict: dict.__len__, set: set.__len__}
_LISTS: Final[tuple[type, ...]] = (type(iter([])), type(reversed([])))
_FIXED: Final[tuple[tuple[Any, Any], ...]] = (
    ((), tuple.__iter__),
    (range(0), range.__iter__),
    (range(1 << 70), range.__iter__),
    ("", str.__iter__),
    ("\u20ac", str.__iter__),
    (b"", bytes.__iter__),
)
_DICTS: Final = tuple(map(type, map(iter, ({}, {}.values(), {}.items()))))
_RESTS: Final[dict[type, Callable[[Any], Any]]] = {
    **{type(iter(each)): _indexed(make) for each, make in _FIXED},
    **dict.fromkeys((*_DICTS, type(iter(set()))), _listed),
    _LISTS[0]: _indexed(list.__iter__),
    _LISTS[1]: _indexed(list.__reversed__),
    enumerate: _enumerated,
    zip: _zipped,
}
_KINDS: Final[dict[type, tuple[type, ...]]] = {
    **{type(iter(each)): () for each, _ in _FIXED},
    **dict.fromkeys(_LISTS, (list,)),
    **dict.fromkeys(_DICTS, (dict,)),
    type(iter(set())): (set,),
}
