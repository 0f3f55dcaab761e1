"""All that an iterator will give, without advancing it.

Stage: effects, at run time, in guards, and while tracing. In: an iterator of C that existed before
the call. Out: one `Item` after another: what it gives, by which way it can be read again, and what
must be the same in a later call for that to be so.

Only iterators that tell what they hold, and that nobody but the program advances: those of lists,
tuples, ranges, texts, dicts and sets, and what C code makes of such: `enumerate`, `zip`, `chain`,
`islice`, `cycle`, `repeat`, `count`. None of them runs code of the program's when it is advanced.
An iterator inside of another one must be nobody else's: who has a reference to it may advance it.
"""

import functools
import gc
import itertools
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from stator import objects
from stator.effects.ahead import ENUMERATED, LONGEST, ZIPPED
from stator.guards import AheadOf, Held, Index, Key, Source
from stator.world.kinds import CONSTANTS

Way: TypeAlias = "Callable[[Source], Source] | tuple[Way, ...] | None"


class _Mark:
    """Part of a mark that is no constant."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


ANY: Final = _Mark("…")  # in the place of what has a guard of its own
_AT: Final = _Mark("at")  # a tuple that begins with it tells of places, and is no item


class Item(NamedTuple):
    """What an iterator gives."""

    value: Any
    way: Way
    """From the iterator to the item, or to the parts of a tuple; None for a constant."""
    mark: Any
    """What must be the same again: constants, and the places of everything else."""


def rest(iterator: Any) -> Iterator[Item] | None:
    """What it gives from now on; None if that can't be told."""
    found = _RESTS.get(type(iterator))
    return None if found is None else found(iterator)


def holders(iterator: Any) -> frozenset[type]:
    """The kinds of containers whose changes such an iterator would see."""
    return frozenset(_KINDS.get(type(iterator), (list, dict, set)))


def container(iterator: Any) -> tuple[Any, Way] | None:
    """The one list that it goes through, if that is all it depends on."""
    if type(iterator) in _LISTS:
        for number, each in enumerate(gc.get_referents(iterator)):
            if objects.is_subtype(type(each), list):
                return each, _held(number)
    return None


def is_constant(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(is_constant, value))
    return bool(CONSTANTS.holds(type(value)))


def same(one: Any, other: Any) -> bool:
    """Whether two marks say the same."""
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    return one is other or (CONSTANTS.holds(type(one)) and repr(one) == repr(other))


def _item(value: Any, way: Way, *places: Any) -> Item:
    """An item that is read at one place."""
    if is_constant(value):
        return Item(value, None, (_AT, *places, value) if places else value)
    return Item(value, way, (_AT, *places, ANY) if places else ANY)


def _held(number: int) -> Callable[[Source], Source]:
    return lambda source: Held(source, number)


def _next(number: int) -> Callable[[Source], Source]:
    return lambda source: AheadOf(source, number)


def _in(held: int, number: int) -> Callable[[Source], Source]:
    """To an item of a list or tuple that is held."""
    return lambda source: Index(Held(source, held), number)


def _number(holder: Any, part: Any) -> int:
    """The number of something that an object of C holds."""
    return next(n for n, each in enumerate(gc.get_referents(holder)) if each is part)


def _below(step: Callable[[Source], Source], way: Way) -> Way:
    """A way that begins with another step."""
    if way is None:
        return None
    if type(way) is tuple:
        return tuple(_below(step, each) for each in way)
    then: Any = way
    return lambda source: then(step(source))


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
        return _ahead(made)

    return found


def _ahead(items: Iterator[Any]) -> Iterator[Item]:
    for number, value in enumerate(items):
        yield _item(value, _next(number))


def _told(iterator: Any) -> list[Any] | None:
    """The rest of an iterator of a dict or set, unless that has changed since: an error."""
    held = [each for each in gc.get_referents(iterator) if type(each) in _COUNTED]
    if any(_COUNTED[type(each)](each) > LONGEST for each in held):
        return None
    try:
        _, (items,) = _reduced(iterator)
    except RuntimeError:
        return None
    return list(items)


def _of_set(iterator: Any) -> Any:
    items = _told(iterator)
    return None if items is None else (Item(each, None, each) for each in items)


def _of_dict(iterator: Any) -> Any:
    """Values are found by their keys, which must be constants."""
    items = _told(iterator)
    if not items:
        return None if items is None else iter(())
    held = [each for each in gc.get_referents(iterator) if type(each) is dict]
    if len(held) != 1 or type(iterator) is _DICTS[0]:
        return (Item(each, None, each) for each in items)
    keys = list(dict.__iter__(held[0]))[-len(items) :]
    return _by_key(iterator, keys, items, _number(iterator, held[0]))


def _by_key(iterator: Any, keys: list[Any], items: list[Any], number: int) -> Iterator[Item]:
    pairs = type(iterator) is _DICTS[2]
    for key, item in zip(keys, items, strict=True):
        if is_constant(item) or not is_constant(key):
            yield Item(item, None, item)
            continue

        def way(source: Source, key: Any = key) -> Source:
            return Key(Held(source, number), key)

        if not pairs:
            yield _item(item, way, number, key)
        elif is_constant(item[1]):
            yield Item(item, None, item)
        else:
            yield Item(item, (None, way), (_AT, number, key, ANY))


def _enumerated(iterator: Any) -> Any:
    _, (inner, number) = _reduced(iterator)
    if sys.getrefcount(inner) > ENUMERATED:
        return None
    found = rest(inner)
    return None if found is None else _counted(found, number, _number(iterator, inner))


def _counted(found: Iterator[Item], number: int, held: int) -> Iterator[Item]:
    for count, each in enumerate(found, number):
        way = None if each.way is None else (None, _below(_held(held), each.way))
        yield Item((count, each.value), way, (_AT, held, count, each.mark))


def _zipped(iterator: Any) -> Any:
    _, inner, *strict = _reduced(iterator)
    if any(sys.getrefcount(each) > ZIPPED for each in inner):
        return None
    found = [rest(each) for each in inner]
    if None in found:
        return None
    return _side_by_side(found, _number(iterator, inner) if inner else 0, bool(strict))


def _side_by_side(found: list[Any], held: int, strict: bool) -> Iterator[Item]:
    while found:
        row = [each for each in (next(each, None) for each in found) if each is not None]
        if len(row) < len(found):
            if strict and row:
                yield Item(_Raises(), None, ANY)
            return
        ways = tuple(_below(_in(held, n), each.way) for n, each in enumerate(row))
        way = None if all(each is None for each in ways) else ways
        value = tuple(each.value for each in row)
        yield Item(value, way, (_AT, held, *(each.mark for each in row)))


class _Raises:
    """In the place of an item: to ask for it is an error."""


# -- that have no state of their own --


class Driver(NamedTuple):
    """An iterator that goes through others, and keeps nothing itself."""

    make: Callable[..., Any]
    function: tuple[Any, Way] | None
    """What it calls, if it calls anything; None if it calls nothing."""
    inner: tuple[tuple[Any, Way], ...]
    shape: tuple[Any, ...]
    """Where its parts are, and what else it has for life."""


def driver(iterator: Any) -> Driver | None:
    """What an iterator consists of whose state is that of the iterators inside."""
    cls = type(iterator)
    if cls is zip:
        _, inner, *strict = _reduced(iterator)
        if not inner:
            return None
        make = functools.partial(zip, strict=bool(strict))
        return Driver(make, None, *_parts_of(iterator, inner, bool(strict)))
    if cls not in _DRIVERS:
        return None
    _, (function, *inner) = _reduced(iterator)
    at = None if function is None else _number(iterator, function)
    called = None if at is None else (function, _held(at))
    if cls is map:
        held = next(each for each in gc.get_referents(iterator) if _is_of(each, inner))
        return Driver(cls, called, *_parts_of(iterator, held, at))
    number = _number(iterator, inner[0])
    return Driver(cls, called, ((inner[0], _held(number)),), (at, number))


def _is_of(value: Any, parts: list[Any]) -> bool:
    if type(value) is not tuple or len(value) != len(parts):
        return False
    return all(a is b for a, b in zip(value, parts, strict=True))


def _parts_of(iterator: Any, parts: tuple[Any, ...], more: Any) -> Any:
    held = _number(iterator, parts)
    ways = (_in(held, n) for n in range(len(parts)))
    return tuple(zip(parts, ways, strict=True)), (held, len(parts), more)


# -- of itertools --


def _chained(iterator: Any) -> Any:
    """The iterator that is under way, then lists and tuples that were not begun."""
    parts = _parts(iterator)
    if _references(parts) > _ALONE:
        return None
    found = [rest(each) for each in parts]
    if None in found:
        return None
    return _one_by_one(found, [_number(iterator, each) for each in parts])


def _one_by_one(found: list[Any], held: list[int]) -> Iterator[Item]:
    if not found:
        return
    for each in found[1] if len(found) > 1 else ():
        yield Item(each.value, _below(_held(held[1]), each.way), (_AT, held[1], each.mark))
    for n, each in enumerate(found[0]):
        kind = type(each.value)
        if kind not in (list, tuple):
            yield Item(_Raises(), None, ANY)  # who knows what it is to iterate over it
            return
        for k, value in enumerate(kind.__iter__(each.value)):
            if each.way is None:  # a tuple of constants
                yield Item(value, None, (_AT, held[0], n, k, value))
                continue
            yield _item(value, _then(_below(_held(held[0]), each.way), k), held[0], n, k)


def _then(way: Any, index: int) -> Way:
    """A way that ends with an item."""
    if type(way) is tuple:
        found: Way = way[index]
        return found
    return lambda source: Index(way(source), index)


def _sliced(iterator: Any) -> Any:
    if _references(_parts(iterator)) > _ALONE:
        return None
    _, (inner, *limits), *state = _reduced(iterator)
    if len(limits) != 3:
        return iter(())  # it has ended
    found = rest(inner)
    if found is None:
        return None
    wanted, stop, step = limits
    return _some(found, _number(iterator, inner), (state[0], wanted, stop, step))


def _some(found: Iterator[Item], held: int, limits: tuple[int, int, int | None, int]) -> Any:
    count, wanted, stop, step = limits
    passed = 0  # items of the iterator inside
    while True:
        while count < wanted:
            if next(found, None) is None:
                return
            count += 1
            passed += 1
        if stop is not None and count >= stop:
            return
        each = next(found, None)
        if each is None:
            return
        count += 1
        wanted += step
        if stop is not None and wanted > stop:
            wanted = stop
        yield Item(each.value, _below(_held(held), each.way), (_AT, held, passed, each.mark))
        passed += 1


def _repeated(iterator: Any) -> Any:
    """It holds one object (and its class, on some versions), and tells how often that comes."""
    value = gc.get_referents(iterator)[-1]
    left = operator.length_hint(iterator, -1)
    times = () if left < 0 else (left,)
    if is_constant(value):
        return (Item(value, None, value) for _ in itertools.repeat(0, *times))
    number = _number(iterator, value)
    return (_item(value, _held(number), number) for _ in itertools.repeat(0, *times))


def _numbered(iterator: Any) -> Any:
    """The only thing of `count` that shows where it is on all versions is its text."""
    held = [each for each in gc.get_referents(iterator) if each is not itertools.count]
    if not all(type(each) in (int, float) for each in held):
        return None
    try:
        text = repr(iterator)  # own: of C, as are the numbers in it
    except ValueError:  # too many digits
        return None
    numbers = text.removeprefix("count(").removesuffix(")").split(", ")
    given = [int(each) if each.lstrip("-").isdigit() else float(each) for each in numbers]
    return (Item(each, None, each) for each in itertools.count(*given))


def _cycled(iterator: Any) -> Any:
    """What is left of the first round, then that which was kept of it, again and again."""
    shared = _references(_parts(iterator)) > _ALONE
    _, (inner,), (kept, again) = _reduced(iterator)
    inside = any(each is inner for each in gc.get_referents(iterator))
    if type(kept) is not list or (inside and (again or shared)):
        return None
    found = rest(inner)
    if found is None:
        return None
    return _round_and_round(iterator, inner if inside else None, found, kept)


def _round_and_round(
    iterator: Any, inner: Any, found: Iterator[Item], kept: list[Any]
) -> Iterator[Item]:
    number = _number(iterator, kept)
    ways = [_item(each, _in(number, n), number, n) for n, each in enumerate(kept)]
    if inner is None:
        yield from ways[len(kept) - len(list(found)) :]
    else:
        held = _number(iterator, inner)
        for each in found:
            ways.append(Item(each.value, _below(_held(held), each.way), (_AT, held, each.mark)))
            yield ways[-1]
    while ways:
        yield from ways


def _tells(cls: Any, *args: Any) -> bool:
    """Whether an iterator of itertools tells what it holds, without a warning that it won't."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            _reduced(cls(*args))
        except (KeyError, AttributeError):
            return False
    return not found


def _parts(iterator: Any) -> tuple[Any, ...]:
    """The iterators that one of itertools goes through."""
    _, args, *state = _reduced(iterator)
    if type(iterator) is itertools.chain:
        return state[0] if state else ()
    return (*args[:1],)


def _references(parts: tuple[Any, ...]) -> int:
    """How often the one of them is referred to that is referred to most."""
    return max([sys.getrefcount(each) for each in parts], default=0)


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
_ITERTOOLS: Final[tuple[tuple[Any, tuple[Any, ...], Callable[[Any], Any]], ...]] = (
    (itertools.chain, (), _chained),
    (itertools.islice, ([], 1), _sliced),
    (itertools.cycle, ([],), _cycled),
)
_DRIVERS: Final[tuple[type, ...]] = (
    map,
    filter,
    *(each for each in (itertools.starmap, itertools.filterfalse) if _tells(each, abs, ())),
)
_RESTS: Final[dict[type, Callable[[Any], Any]]] = {
    **{type(iter(each)): _indexed(make) for each, make in _FIXED},
    **dict.fromkeys(_DICTS, _of_dict),
    type(iter(set())): _of_set,
    _LISTS[0]: _indexed(list.__iter__),
    _LISTS[1]: _indexed(list.__reversed__),
    enumerate: _enumerated,
    zip: _zipped,
    itertools.repeat: _repeated,
    itertools.count: _numbered,
    **{cls: found for cls, args, found in _ITERTOOLS if _tells(cls, *args)},
}
# How often an inner iterator is referred to that nobody else has.
_EXAMPLE: Final[Any] = itertools.chain([])
_ALONE: Final = _references(_parts(_EXAMPLE)) if itertools.chain in _RESTS else 0
_KINDS: Final[dict[type, tuple[type, ...]]] = {
    **{type(iter(each)): () for each, _ in _FIXED},
    **dict.fromkeys(_LISTS, (list,)),
    **dict.fromkeys(_DICTS, (dict,)),
    type(iter(set())): (set,),
    itertools.count: (),
    itertools.repeat: (),
}
