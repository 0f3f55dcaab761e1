"""Values made while tracing are made again: structure, types, identities, and fresh each time."""

import collections
import enum
import functools
import itertools
import operator
import os
import time
import types
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from stator.effects import CannotRebuild
from tests.emit.samples import (
    Bag,
    Count,
    FailureError,
    Frozen,
    HidingSlot,
    Name,
    Ordered,
    Plain,
    Point,
    Queue,
    Slotted,
    SlottedAndDict,
    Stack,
    Table,
    Triple,
)
from tests.emit.world import World, check_rebuilt, same


def make(cls: Any, *args: Any, **attributes: Any) -> Any:
    value = cls(*args)
    value.__dict__.update(attributes)
    return value


def with_slot(value: Any, **slots: Any) -> Any:
    for name, item in slots.items():
        setattr(value, name, item)
    return value


def function_with_everything() -> Any:
    seen: list[Any] = []
    count = 0

    def inner(a: int, b: Any = seen, *, c: Any = ([],)) -> "list[int]":
        """With a text."""
        nonlocal count
        count += 1
        return [*seen, a, b, c]

    inner.note = seen  # type: ignore[attr-defined]
    inner.__qualname__ = "Renamed.inner"
    return inner


def chained() -> Exception:
    try:
        try:
            raise KeyError("inner", [1])
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as caught:
        return caught


def context_only(suppress: bool) -> Exception:
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise FailureError(3)  # noqa: B904 - the context is the point
    except FailureError as caught:
        caught.__suppress_context__ = suppress
        caught.add_note("a note")
        return caught


def raised(text: str) -> BaseException:
    try:
        eval(text)
    except BaseException as error:
        return error
    raise AssertionError(text)


def function(*args: Any) -> Any: ...


def started(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    for _ in range(steps):
        next(iterator)
    return iterator


def empty_cell() -> types.CellType:
    return types.CellType()


SHARED: list[int] = [1]
VALUES: dict[str, Callable[[], Any]] = {
    "constants": lambda: [1, 2.5, -0.0, True, None, "x", b"y", 1j, ..., NotImplemented, range(3)],
    "odd constants": lambda: [
        float("inf"), float("-inf"), 10**30, -(10**30), complex(-0.0, 1), "\ud800", "'\"\n",
        "a" * 999,
    ],
    "nan": lambda: [float("nan")] * 2,
    "a bare constant": lambda: 3,
    "empty": lambda: [[], (), {}, set(), frozenset(), collections.deque(), bytearray()],
    "tuple": lambda: (1, ([2],), "x"),
    "named tuple": lambda: Point([1], (2,)),
    "tuple subclass": lambda: make(Triple, (1, [2]), note=[3]),
    "struct sequence": lambda: time.gmtime(0)[:3] and os.terminal_size((80, 24)),
    "list subclass": lambda: make(Stack, [1, [2]], note=3),
    "dict": lambda: {"a": [1], 2: {"b": ()}, (1, "x"): None, None: 1},
    "dict subclass": lambda: with_slot(Table(a=[1]), note=[2]),
    "counter": lambda: collections.Counter("abca"),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "default dict without factory": lambda: collections.defaultdict(None, a=[1]),
    "ordered dict": lambda: collections.OrderedDict([("b", [1]), ("a", 2)]),
    "ordered dict, moved": lambda: moved(),
    "ordered dict subclass": lambda: make(Ordered, [("b", 1), ("a", [2])], note=[1]),
    "set": lambda: {1, "x", (2, None)},
    "set subclass": lambda: make(Bag, [1, 2], note=[]),
    "frozen set": lambda: frozenset([1, frozenset([2])]),
    "frozen set subclass": lambda: make(Frozen, [1, 2], note=[]),
    "deque": lambda: collections.deque([1, [2]], maxlen=5),
    "empty deque with maxlen": lambda: collections.deque(maxlen=0),
    "deque subclass": lambda: make(Queue, [1, [2]], note=1),
    "bytearray": lambda: bytearray(b"abc"),
    "slice": lambda: slice([1], None, (2,)),
    "int subclass": lambda: make(Count, 7, note=[1]),
    "str subclass": lambda: Name("text"),
    "instance": lambda: Plain(a=1, b=[2], kind="own"),
    "instance without attributes": lambda: Plain(),
    "instance with odd keys": lambda: make(Plain, **{"not a name": 1}),
    "slots": lambda: Slotted([1]),
    "slots, one hides another": lambda: HidingSlot([1]),
    "slots and dict": lambda: make(SlottedAndDict, [1], more=[2]),
    "namespace": lambda: types.SimpleNamespace(a=[1], b=2),
    "objects": lambda: [object(), object()],
    "shared": lambda: (lambda x: [x, x, (x, {"x": x})])([1]),
    "function": function_with_everything,
    "lambda": lambda: lambda x, y=2: x,
    "cells": lambda: [types.CellType([1]), empty_cell()],
    "method": lambda: Plain(a=[1]).method,
    "bound C methods": lambda: (lambda x: [x, x.append, x.__len__, {}.get])([1]),
    "bound C method of a subclass": lambda: make(Stack, [1]).append,
    "class method of C": lambda: [dict.fromkeys, Table.fromkeys, int.from_bytes, object.__new__],
    "C functions": lambda: [len, operator.add, list.append, list.__len__, int.real],
    "partial": lambda: functools.partial(print, [1], sep=[2]),
    "partial of partial": lambda: partial_of_partial(),
    "wrapped functions": lambda: [staticmethod(function), classmethod(function)],
    "property": lambda: property(function, None, function, "doc"),
    "aliases of types": lambda: [list[int], dict[str, list[int]], int | None, list[int] | str],
    "exception": lambda: ValueError("text", [1]),
    "exception with fields of its own": lambda: FailureError(4),
    "exceptions with C fields": lambda: [
        OSError(2, "no such", "name", None, "other"), FileNotFoundError(2, "x"), StopIteration([1]),
        SystemExit([2]), KeyError("k"), UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
        ImportError("m", name="n", path="p"), BlockingIOError(1, "x", 5),
        SyntaxError("bad", ("file", 1, 2, "text")),
    ],
    "exceptions raised by C": lambda: [
        raised(text) for text in ("1/0", "[][1]", "nope", "int.nope", "(")
    ],
    "exception group": lambda: ExceptionGroup("many", [ValueError(1), FailureError(2)]),
    "chained exceptions": chained,
    "exception with a context": lambda: [context_only(False), context_only(True)],
    "weak reference": lambda: (lambda x: [x, weakref.ref(x)])(Plain()),
    "weak reference with callback": lambda: (
        lambda x: [x, weakref.ref(x, lambda r: None)]
    )(Plain()),
    "dead reference": lambda: weakref.ref(Plain()),
    "views": lambda: (lambda d: [d, d.keys(), d.values(), d.items()])({"a": [1]}),
    "mapping proxy": lambda: types.MappingProxyType({"a": [1]}),
}  # fmt: skip


def moved() -> Any:
    value = collections.OrderedDict(a=1, b=2, c=3)
    value.move_to_end("a")
    value.move_to_end("c", last=False)
    return value


def partial_of_partial() -> Any:
    inner = functools.partial(print, 1)
    inner.note = [1]  # type: ignore[attr-defined]
    return functools.partial(inner, 2)


@pytest.mark.parametrize("name", VALUES)
def test_value(name: str) -> None:
    check_rebuilt(VALUES[name]())


ITERATORS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter([1, [2], 3]),
    "list, reversed": lambda: reversed([1, [2], 3]),
    "list subclass": lambda: iter(Stack([1, 2, 3])),
    "tuple": lambda: iter((1, [2], 3)),
    "tuple, reversed": lambda: reversed((1, 2, 3)),
    "str": lambda: iter("abc"),
    "str, not ascii": lambda: iter("äöü"),
    "bytes": lambda: iter(b"abc"),
    "bytearray": lambda: iter(bytearray(b"abc")),
    "range": lambda: iter(range(3)),
    "long range": lambda: iter(range(10**30, 10**30 + 3)),
    "dict": lambda: iter({1: 2, 3: 4, 5: 6}),
    "dict, reversed": lambda: reversed({1: 2, 3: 4, 5: 6}),
    "dict values": lambda: iter({1: [2], 3: 4, 5: 6}.values()),
    "dict items": lambda: iter({1: [2], 3: 4, 5: 6}.items()),
    "dict items, reversed": lambda: reversed({1: [2], 3: 4, 5: 6}.items()),
    "deque": lambda: iter(collections.deque([1, [2], 3])),
    "enumerate": lambda: enumerate([1, [2], 3], 5),
    "zip": lambda: zip([1, 2, 3], "abc", strict=True),
    "map": lambda: map(operator.neg, [1, 2, 3]),
    "filter": lambda: filter(None, [1, 0, 2, 3, 4]),
    "chain": lambda: itertools.chain([1], (2, 3), "x"),
    "count": lambda: itertools.count(3, 2),
    "repeat": lambda: itertools.repeat([1], 3),
    "cycle": lambda: itertools.cycle([1, [2], 3]),
    "islice": lambda: itertools.islice([1, 2, 3, 4, 5, 6, 7], 1, 6, 2),
    "starmap": lambda: itertools.starmap(pow, [(1, 2), (3, 4), (5, 6)]),
    "takewhile": lambda: itertools.takewhile(bool, [1, 2, 3, 0]),
    "dropwhile": lambda: itertools.dropwhile(operator.not_, [0, 1, 2, 3]),
    "compress": lambda: itertools.compress("abcd", [1, 1, 0, 1]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3]),
    "product": lambda: itertools.product([1, 2], "ab"),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations([1, 2, 3, 4], 2),
    "zip_longest": lambda: itertools.zip_longest([1, 2, 3], "a", fillvalue=[0]),
    "tee": lambda: itertools.tee([1, [2], 3])[0],
    "nested": lambda: enumerate(map(operator.neg, itertools.chain(iter([1, 2]), (3,)))),
}


@pytest.mark.filterwarnings("error")  # that `__reduce__` of itertools is deprecated is not ours
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ITERATORS)
def test_iterator(name: str, steps: int) -> None:
    """Two calls, the trace's own iterator and one that nobody planned all go on alike."""
    value, twin = (started(ITERATORS[name](), steps) for _ in range(2))
    world = World()
    if "__reduce__" not in vars(itertools.chain) and (
        type(value).__module__ == "itertools" or name == "nested"
    ):
        with pytest.raises(CannotRebuild):  # Python 3.14 does not tell what is in them
            world.residual(value)
        return
    made = world.residual(value)
    first, second = world.run(made), world.run(made)
    assert type(first) is type(second) is type(value)
    expected = [repr(item) for item in itertools.islice(twin, 20)]
    for iterator in (first, second, value):
        assert [repr(item) for item in itertools.islice(iterator, 20)] == expected


@pytest.mark.parametrize("base", [[1, 2], (1, 2), "ab", range(2), {1: 2}, collections.deque([1])])
def test_exhausted_iterator(base: Any) -> None:
    iterator = iter(base)
    list(iterator)
    result = World().again(iterator)
    assert type(result) is type(iterator)
    assert list(result) == []


def test_set_iterator() -> None:
    made = World().again(iter({1, 2, 3}))
    assert sorted(made) == [1, 2, 3]
    with pytest.raises(CannotRebuild, match="an iterator that has started over a set"):
        World().plan(started(iter({1, 2}), 1))


def test_callable_iterator() -> None:
    made = World().again(iter([1, 2, 3].pop, 1))
    assert list(made) == [3, 2]
    assert list(made) == []


def test_list_iterator_and_its_list() -> None:
    items = [1, 2, 3]
    iterator = started(iter(items), 1)
    later, again = World().again([items, iterator])
    later.append(4)
    assert list(again) == [2, 3, 4]


# -- what stands for something else --


def test_references() -> None:
    world = World()
    tensor, later = object(), object()
    shadow, real = [1], [1]
    member = Plain()
    world.output(tensor, later)
    world.fetched(shadow, real)
    world.constant(member)
    result = {"t": tensor, "l": [shadow, shadow], member: (member, tensor)}
    made = world.run(world.residual(result))
    same(world, result, made)
    assert made["t"] is later and made["l"][1] is real and made[member][0] is member


def test_resolve_is_asked_once() -> None:
    world = World()
    shadow = world.fetched([1], [1])
    shared = [shadow]
    world.plan([shared, shared, shadow, (shared, Plain(a=shared))])
    assert max(world.asked.values()) == 1


class Colour(enum.Enum):
    RED = 1


class Size(enum.IntFlag):
    S = 1
    M = 2


def test_members_of_enumerations() -> None:
    """Their class has no others: they are what they are, as values and as keys."""
    value = [Colour.RED, Size.S | Size.M, {Colour.RED: 1, Size.M: 2}]
    later = World().again(value)
    assert later[0] is Colour.RED and later[1] is value[1]
    assert later[2] == value[2]


@pytest.mark.parametrize("key", [Fraction(1, 2), Path("x"), UUID(int=3)])
def test_keys_of_libraries(key: Any) -> None:
    later = World(type(key)).again({key: 1})
    assert later == {key: 1} and next(iter(later)) is not key


def test_unhashable_by_c_code() -> None:
    class Key:
        def __hash__(self) -> int:
            raise AssertionError

    class Equal:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = object.__hash__

    one, two = Key.__new__(Key), Equal()
    for value in (
        {two: 1},
        {two},
        frozenset([two]),
        {(1, two): 1},
        collections.OrderedDict({two: 1}),
    ):
        with pytest.raises(CannotRebuild, match=r"Equal: putting it into a dict or set would run"):
            World().plan([value])
    world = World(one, two)
    world.plan({two: 1})  # a constant is trusted


# -- no recipe --


def made_class() -> type:
    return type("Made", (), {"__module__": "made.while.tracing"})


def generator() -> Iterator[int]:
    yield 1


REFUSED: dict[str, Callable[[], Any]] = {
    "a generator made while tracing": generator,
    "a class made while tracing: Made": made_class,
    "a class made while tracing": lambda: made_class()(),
    "a memoryview": lambda: memoryview(b"x"),
    "a module": lambda: types.ModuleType("m"),
    "a enumerate over a Own: its __iter__ would run": lambda: enumerate(Own()),
    "a staticmethod of a Own": lambda: staticmethod(Own()),
    "a dict_keyiterator over a dict that has changed": lambda: changed_dict(),
    "no recipe for this C type": lambda: itertools.pairwise([1, 2]),
    "_thread.RLock": lambda: __import__("threading").RLock(),
}


class Own:
    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return 1

    def __call__(self) -> None: ...


def changed_dict() -> Any:
    value = {1: 1, 2: 2}
    iterator = iter(value)
    next(iterator)
    del value[1]
    value[3] = 3
    return iterator


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    value = REFUSED[reason]()
    with pytest.raises(CannotRebuild, match=reason):
        World().plan([value])
