"""Object graphs made at random, with cycles: later calls give the same graphs, of fresh objects."""

import collections
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emit.world import World, check_rebuilt


class Pair(NamedTuple):
    first: Any
    second: Any


class Plain:
    pass


class Slotted:
    __slots__ = ("__dict__", "__weakref__", "a", "b")
    a: Any
    b: Any


class Stack(list[Any]):
    pass


def fill_plain(value: Any, parts: list[Any]) -> None:
    for index, part in enumerate(parts):
        setattr(value, f"a{index}", part)


def fill_slots(value: Any, parts: list[Any]) -> None:
    for name, part in zip(("a", "b", "c"), parts, strict=False):
        setattr(value, name, part)


def fill_dict(value: Any, parts: list[Any]) -> None:
    for index, part in enumerate(parts):
        value[index] = part


def fill_keys(value: Any, parts: list[Any]) -> None:
    value.update((part, index) for index, part in enumerate(parts) if hashable(part))


def fill_set(value: Any, parts: list[Any]) -> None:
    value.update(part for part in parts[:1] if hashable(part))  # one: the order is the set's own


def fill_cell(value: Any, parts: list[Any]) -> None:
    if parts:
        value.cell_contents = parts[0]


def fill_error(value: Any, parts: list[Any]) -> None:
    value.args = tuple(parts)
    value.__context__ = next((p for p in parts if isinstance(p, Exception)), None)
    value.note = parts


def fill_partial(value: Any, parts: list[Any]) -> None:
    value.__setstate__((len, tuple(parts), {}, None))


def hashable(value: Any) -> bool:
    """By C code, and whatever it will contain."""
    return type(value) in (Plain, Slotted, int, str, type(None), object)


def closure(parts: list[Any]) -> Any:
    cells = tuple(part for part in parts if isinstance(part, types.CellType))[:1]
    captured = cells or (types.CellType(parts),)

    def template() -> Any:
        return captured_name

    captured_name = None
    return types.FunctionType(template.__code__, globals(), "made", tuple(parts), captured)


# Mutable ones are made empty, then filled with anything; the others are made from earlier ones.
FILLED: list[tuple[Callable[[], Any], Callable[[Any, list[Any]], None]]] = [
    (list, lambda value, parts: value.extend(parts)),
    (Stack, lambda value, parts: value.extend(parts)),
    (dict, fill_dict),
    (dict, fill_keys),
    (collections.OrderedDict, fill_keys),
    (lambda: collections.defaultdict(list), fill_dict),
    (set, fill_set),
    (collections.deque, lambda value, parts: value.extend(parts)),
    (Plain, fill_plain),
    (Slotted, fill_slots),
    (types.SimpleNamespace, fill_plain),
    (types.CellType, fill_cell),
    (lambda: ValueError(), fill_error),
    (lambda: functools.partial(print), fill_partial),
]
MADE: list[Callable[[list[Any]], Any]] = [
    tuple,
    lambda parts: Pair(parts, tuple(parts)),
    lambda parts: frozenset(part for part in parts[:1] if hashable(part)),
    lambda parts: slice(parts, None, tuple(parts)),
    closure,
    lambda parts: types.MethodType(len, parts),
    lambda parts: parts.append,
    lambda parts: types.MappingProxyType({"parts": parts}),
    lambda parts: next((weakref.ref(p) for p in parts if type(p) is Plain), None),
    lambda parts: next((vars(p) for p in parts if type(p) in (Plain, Slotted)), None),
]

nodes = st.lists(
    st.tuples(
        st.integers(0, len(FILLED) + len(MADE) + 2),
        st.lists(st.integers(0, 30), max_size=3),
    ),
    min_size=1,
    max_size=14,
)


def graph(description: list[tuple[int, list[int]]], world: World) -> list[Any]:
    """The objects of a description: (sort, indices of the objects it refers to)."""
    made: list[Any] = []
    for sort, references in description:
        earlier = [made[i % len(made)] for i in references] if made else []
        if sort < len(FILLED):
            made.append(FILLED[sort][0]())
        elif sort < len(FILLED) + len(MADE):
            made.append(MADE[sort - len(FILLED)](earlier))
        elif sort == len(FILLED) + len(MADE):
            made.append(world.output(object(), object()))
        elif sort == len(FILLED) + len(MADE) + 1:
            made.append(world.fetched([1], [2]))
        else:
            made.append(len(made))
    for value, (sort, references) in zip(made, description, strict=True):
        if sort < len(FILLED):
            FILLED[sort][1](value, [made[i % len(made)] for i in references])
    return made


@given(description=nodes)
@settings(max_examples=400, deadline=None)
def test_graph(description: list[tuple[int, list[int]]]) -> None:
    world = World()
    check_rebuilt(graph(description, world), world)
