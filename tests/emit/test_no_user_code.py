"""Neither planning nor the residual function runs a line of the program's code."""

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from stator.effects import (
    AttrDel,
    AttrSet,
    CannotRebuild,
    ClassAttrSet,
    DequeContents,
    DictContents,
    Effect,
    KeyDel,
    KeySet,
    ListContents,
    SetContents,
    SlotSet,
)
from stator.guards import Source
from tests.emit.world import World


class RefusalError(BaseException):
    """Raised by everything a hostile object is asked."""


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise RefusalError


NAMES = (
    "__bool__", "__call__", "__contains__", "__copy__", "__deepcopy__", "__delattr__",
    "__delitem__", "__dir__", "__format__", "__get__", "__getattr__", "__getattribute__",
    "__getitem__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__index__", "__init__",
    "__instancecheck__", "__int__", "__iter__", "__len__", "__length_hint__", "__missing__",
    "__new__", "__next__", "__reduce__", "__reduce_ex__", "__repr__", "__reversed__", "__set__",
    "__setattr__", "__setitem__", "__setstate__", "__str__", "__subclasscheck__", "append",
    "clear", "copy", "extend", "get", "items", "keys", "move_to_end", "pop", "update", "values",
)  # fmt: skip
ATTACK = dict.fromkeys(NAMES, refuse)
META = type("HostileMeta", (type,), dict.fromkeys([*NAMES, "__eq__", "__hash__"], refuse))


def hostile(base: type, *, keyed: bool = False) -> Any:
    """A class of which nothing may be asked; with `keyed`, neither hash nor equality."""
    body = ATTACK | {"__class__": property(refuse), "__dict__": property(refuse)}
    if keyed:
        body |= {"__eq__": refuse, "__hash__": refuse}
    if base is Exception:
        body |= {"args": property(refuse), "__context__": property(refuse)}
    return type.__new__(META, f"Hostile{base.__name__}", (base,), body)


def as_dict(value: Any) -> dict[Any, Any]:
    return dict(dict.items(value))


def filled(base: Any, fill: Callable[[Any], Any] | None = None, *args: Any) -> Any:
    value = base.__new__(hostile(base), *args)
    if fill is not None:
        fill(value)
    return value


def with_factory(value: Any) -> None:
    dict.update(value, {"a": 1})
    collections.defaultdict.__dict__["default_factory"].__set__(value, list)


SORTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "object": (lambda: filled(object), lambda v: None),
    "tuple": (lambda: filled(tuple, None, (1, 2)), lambda v: list(tuple.__iter__(v))),
    "list": (lambda: filled(list, lambda v: list.extend(v, [1, 2])), lambda v: list.copy(v)),
    "dict": (lambda: filled(dict, lambda v: dict.update(v, {"a": 1})), as_dict),
    "defaultdict": (
        lambda: filled(collections.defaultdict, with_factory),
        lambda v: list(dict.items(v)),
    ),
    "OrderedDict": (
        lambda: filled(
            collections.OrderedDict, lambda v: collections.OrderedDict.__setitem__(v, 1, 2)
        ),
        lambda v: list(collections.OrderedDict.__iter__(v)),
    ),
    "set": (lambda: filled(set, lambda v: set.add(v, 1)), lambda v: sorted(set.__iter__(v))),
    "frozenset": (lambda: filled(frozenset, None, [1]), lambda v: list(frozenset.__iter__(v))),
    "deque": (
        lambda: filled(collections.deque, lambda v: collections.deque.extend(v, [1, 2])),
        lambda v: list(collections.deque.__iter__(v)),
    ),
    "bytearray": (
        lambda: filled(bytearray, lambda v: bytearray.extend(v, b"ab")),
        lambda v: bytes(bytearray.__getitem__(v, slice(None))),
    ),
    "int": (lambda: filled(int, None, 5), lambda v: int.__int__(v)),
    "str": (lambda: filled(str, None, "x"), lambda v: str.__str__(v)),
    "float": (lambda: filled(float, None, 0.5), lambda v: float.__float__(v)),
    "bytes": (lambda: filled(bytes, None, b"x"), lambda v: bytes.__getitem__(v, slice(None))),
    "Exception": (
        lambda: filled(Exception, None, 1, 2),
        lambda v: BaseException.args.__get__(v),  # type: ignore[attr-defined]
    ),
    "SimpleNamespace": (lambda: filled(types.SimpleNamespace), lambda v: None),
    "partial": (lambda: filled(functools.partial, None, len, 1), lambda v: None),
}


@pytest.mark.parametrize("name", SORTS)
def test_values(name: str) -> None:
    make, read = SORTS[name]
    value = make()
    cls = type(value)
    world = World(cls)
    plan = world.residual([value, value, {"k": value}])
    first = world.run(plan)
    second = world.run(plan)
    assert type(first[0]) is cls
    assert first[0] is first[1] is first[2]["k"] and first[0] is not second[0]
    assert first[0] is not value
    assert read(first[0]) == read(value)


def test_attributes() -> None:
    """Properties, `__setattr__` and slots of the same name are not in the way."""

    class Guarded:
        __setattr__ = __delattr__ = __getattribute__ = refuse
        name = property(refuse, refuse, refuse)

    value = object.__new__(Guarded)
    descriptor = Guarded.__dict__["__dict__"]
    descriptor.__get__(value)["name"] = [1]
    later = World().again(value)
    assert descriptor.__get__(later) == {"name": [1]}


def test_containers_of_hostile_objects() -> None:
    """As items and values they are only passed along."""
    cls = hostile(object, keyed=True)
    value = object.__new__(cls)
    world = World(cls)
    later = world.again([value, (value,), {"a": value}, collections.deque([value]), iter([value])])
    assert later[0] is later[1][0] is later[2]["a"] is later[3][0] is next(later[4])


@pytest.mark.parametrize("wrap", [lambda v: {v: 1}, lambda v: {v}, lambda v: frozenset([v])])
def test_hostile_keys_are_refused(wrap: Callable[[Any], Any]) -> None:
    class Key:
        ready = False

        def __hash__(self) -> int:
            if Key.ready:
                raise RefusalError
            return 1

    value = wrap(Key())
    Key.ready = True
    with pytest.raises(CannotRebuild, match="putting it into a dict or set would run its __hash__"):
        World().plan(value)


EFFECTS: dict[str, tuple[Any, Callable[[Source], Effect], Callable[[Any], Any], Any]] = {
    "list": (list, lambda s: ListContents(s, (1, 2)), list.copy, [1, 2]),
    "dict": (dict, lambda s: DictContents(s, (("a", 1),)), as_dict, {"a": 1}),
    "set": (set, lambda s: SetContents(s, (1,)), lambda v: list(set.__iter__(v)), [1]),
    "deque": (
        collections.deque,
        lambda s: DequeContents(s, (1, 2)),
        lambda v: list(collections.deque.__iter__(v)),
        [1, 2],
    ),
    "ordered": (
        collections.OrderedDict,
        lambda s: DictContents(s, (("b", 1), ("a", 2))),
        lambda v: list(collections.OrderedDict.__iter__(v)),
        ["b", "a"],
    ),
    "key": (dict, lambda s: KeySet(s, "a", 1), as_dict, {"a": 1}),
    "key of ordered": (
        collections.OrderedDict,
        lambda s: KeySet(s, "a", 1),
        lambda v: list(collections.OrderedDict.__iter__(v)),
        ["a"],
    ),
    "no key": (dict, lambda s: KeyDel(s, "a"), as_dict, {}),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effects(name: str) -> None:
    base, effect, read, expected = EFFECTS[name]
    target = base.__new__(hostile(base))
    world = World()
    world.fetched(object(), target)
    world.run(world.residual(None, [effect(world.source(0))]))
    assert read(target) == expected


@pytest.mark.parametrize("known", [False, True])
def test_effects_on_attributes(known: bool) -> None:
    class Guarded:
        __slots__ = ("__dict__", "slot")
        __setattr__ = __delattr__ = __getattribute__ = refuse
        name = property(refuse, refuse, refuse)

    target = object.__new__(Guarded)
    kind = Guarded if known else None
    attributes = Guarded.__dict__["__dict__"]
    world = World()
    world.fetched(object(), target)
    source = world.source(0)
    slot = Guarded.__dict__["slot"]
    effects = [AttrSet(source, "name", 1, kind), AttrSet(source, "b", 2, kind)]
    world.run(
        world.residual(None, [*effects, AttrDel(source, "b", kind), SlotSet(source, slot, 3)])
    )
    assert attributes.__get__(target) == {"name": 1}
    assert slot.__get__(target) == 3


def test_effects_on_classes() -> None:
    meta = type("Meta", (type,), {"__setattr__": refuse, "__getattribute__": refuse})
    target: Any = meta.__new__(meta, "Target", (), {})
    world = World()
    world.fetched(object(), target)
    world.run(world.residual(None, [ClassAttrSet(world.source(0), "x", 1)]))
    assert type.__dict__["__dict__"].__get__(target)["x"] == 1
