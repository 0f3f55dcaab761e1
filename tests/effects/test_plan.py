"""Plans: which steps, in which order, and what they look like."""

import collections
import gc
import struct
import weakref
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from stator.effects import (
    AttrDel,
    AttrSet,
    CannotRebuild,
    CellDel,
    Constant,
    DictContents,
    Effect,
    Fetched,
    KeySet,
    ListContents,
    Output,
    Plan,
    Ref,
    plan,
)
from stator.guards import Attr, Global, Local

X = Local(0, "x")
TENSOR, SHADOW = object(), [object()]


class Point:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def resolve(value: Any) -> Ref | None:
    if value is TENSOR:
        return Output(0)
    if value is SHADOW:
        return Fetched(X)
    return Constant(value) if issubclass(type(value), type) else None


def planned(result: Any, effects: Sequence[Effect] = ()) -> Plan:
    return plan(result, effects, resolve)


def test_leaves() -> None:
    assert str(planned(TENSOR)) == "return outputs[0]"
    assert str(planned(SHADOW)) == "return x"
    assert str(planned(3)) == "return 3"
    assert str(planned(Point)) == "return class Point"


def test_values_are_made_whole() -> None:
    text = str(planned([TENSOR, (1, {"k": SHADOW}), set(), {2}]))
    assert text == (
        "v1 = {'k': x}\nv2 = (1, v1)\nv3 = set()\nv4 = {2}\n"
        "v5 = [outputs[0], v2, v3, v4]\nreturn v5"
    )


def test_cycles_are_made_then_filled() -> None:
    value: list[Any] = [TENSOR]
    value.append((value, value))
    assert str(planned(value)) == (
        "v1 = []\nv2 = (v1, v1)\nlist_extend(v1, [outputs[0], v2])\nreturn v1"
    )


def test_only_cycles_are_made_in_parts() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    text = str(planned([cycle, [1]]))
    assert text == "v1 = []\nlist_extend(v1, [v1])\nv2 = [1]\nv3 = [v1, v2]\nreturn v3"


def test_effects_come_after_all_values() -> None:
    point = Point(t=TENSOR)
    effects = [
        ListContents(X, (point, SHADOW)),
        DictContents(Global("g"), (("k", [point]),)),
        AttrSet(Attr(X, "a"), "b", 1),
        AttrDel(X, "c"),
        KeySet(X, "k", point),
        CellDel(X),
    ]
    assert str(planned(None, effects)) == (
        "v1 = object_new(class Point)\n"
        "dict_update(dict_of_Point(v1), {'t': outputs[0]})\n"
        "v2 = [v1]\n"
        "ListContents x: (v1, x)\n"
        "DictContents global g: (('k', v2))\n"
        "AttrSet x.a: b, 1\n"
        "AttrDel x: c\n"
        "KeySet x: 'k', v1\n"
        "CellDel x\n"
        "return None"
    )


def test_dicts_of_instances() -> None:
    """Put in; got from the instance if held by others too; set if it is not the instance's own."""
    point = Point(a=1)
    assert "dict_update(dict_of_Point(v1), {'a': 1})" in str(planned(point))
    text = str(planned([point, vars(point)]))
    assert "v2 = dict_of_Point(v1)\ndict_update(v2, {'a': 1})" in text
    other = Point()
    other.__dict__ = vars(point)
    text = str(planned([point, other]))
    assert text.count("set_dict(") == 2 and text.count("{'a': 1}") == 1


def test_weak_keys_of_plans() -> None:
    """A plan holds nothing that it makes again."""
    made = Point(items=[1])
    watched = weakref.ref(made)
    steps = planned([made, iter([made])])
    del made
    gc.collect()
    assert watched() is None
    assert "object_new" in str(steps)


def test_an_iterator_in_the_deque_it_iterates_over() -> None:
    items: collections.deque[Any] = collections.deque()
    items.append(1)
    items.append(iter(items))
    # The iterator notices the change itself; what matters is that no order of steps exists.
    with pytest.raises(CannotRebuild, match="in what it iterates over"):
        planned(items)


def test_a_key_that_is_filled_too_late() -> None:
    class Own(Fraction):
        pass

    key: Any = Own(1, 2)
    key.table = {key: 1}
    with pytest.raises(CannotRebuild, match="Own in a cycle"):
        planned(key)


def test_a_resolved_class_is_needed() -> None:
    with pytest.raises(CannotRebuild, match="a class made while tracing: Point"):
        plan(Point(), (), lambda value: None)


def test_constants_are_not_asked_about() -> None:
    asked: list[Any] = []

    def remember(value: Any) -> Ref | None:
        asked.append(value)
        return None

    values = [1, 1.5, "s", b"b", None, True, ..., (), range(3), test_leaves.__code__]
    plan(values, (), remember)
    assert asked == [values]


def test_keys_that_are_tensors() -> None:
    """Their hash is Python code, but known to be the address."""
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2)

    def answer(value: Any) -> Ref | None:
        return Fetched(X) if value is tensor else None

    assert str(plan({tensor: 1}, (), answer)) == "v1 = {x: 1}\nreturn v1"
    text = str(plan([torch.Size([1, 2]), torch.max(tensor, 0)], (), _world_of_torch))
    assert "v1 = Size_new(" in text and "max_new(" in text


def _world_of_torch(value: Any) -> Ref | None:
    return Output(0) if type(value).__name__ == "Tensor" else None


def test_reasons_ask_nothing() -> None:
    """Not even for the name of a class's module, which may be anything."""

    class Silent:
        def __str__(self) -> str:
            raise AssertionError

        __repr__ = __format__ = __str__  # type: ignore[assignment]

    body = {"__module__": Silent(), "__qualname__": "Numbers"}
    numbers = type("Numbers", (struct.Struct,), body)("i")
    with pytest.raises(CannotRebuild, match=r"a \?.Numbers .* no recipe for its C base Struct"):
        planned([numbers])
