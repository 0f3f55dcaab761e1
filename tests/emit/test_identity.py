"""Cycles are closed, and an object reached twice is one object: also an instance's dict."""

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.emit.samples import Bag, Plain, Point, Queue, Slotted, Stack, Table
from tests.emit.world import World, check_rebuilt

# -- cycles --


def self_list() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def self_dict() -> Any:
    value: dict[Any, Any] = {}
    value["me"] = value
    return value


def through_tuple() -> Any:
    inner: list[Any] = []
    value = (inner, 1)
    inner.append(value)
    return value


def instances() -> Any:
    a, b = Plain(name="a"), Plain(name="b")
    a.other, b.other = b, a  # type: ignore[attr-defined]
    return a


def keys() -> Any:
    a = Plain()
    a.table = {a: 1, (a, 2): a}  # type: ignore[attr-defined]
    a.group = {a}  # type: ignore[attr-defined]
    a.frozen = frozenset([a])  # type: ignore[attr-defined]
    a.ordered = collections.OrderedDict({a: a})  # type: ignore[attr-defined]
    return a


def recursive_function() -> Any:
    def recursive(n: int) -> int:
        return n and recursive(n - 1)

    recursive.me = recursive  # type: ignore[attr-defined]
    return recursive


def slot_cycle() -> Any:
    a = Slotted(1)
    a.right = Point(a, [a])
    return a


def subclasses() -> Any:
    stack, queue, bag = Stack(), Queue(), Bag()
    stack.append(queue)
    queue.append(stack)
    plain = Plain(bag=bag, stack=stack)
    bag.add(plain)
    return plain


def exception_cycle() -> Any:
    a, b = ValueError("a"), ValueError("b")
    a.__context__, b.__context__ = b, a
    a.args = (a, b)
    return a


def partial_cycle() -> Any:
    items: list[Any] = []
    value = functools.partial(print, items)
    items.append(value)
    items.append(items.append)
    return value


CYCLES = (
    self_list, self_dict, through_tuple, instances, keys, recursive_function, slot_cycle,
    subclasses, exception_cycle, partial_cycle,
)  # fmt: skip


@pytest.mark.parametrize("value", CYCLES)
def test_cycle(value: Callable[[], Any]) -> None:
    check_rebuilt(value())


def test_cycle_with_an_iterator() -> None:
    items: list[Any] = [1, 2]
    iterator = iter(items)
    next(iterator)
    items.append(iterator)
    _, _, again = later = World().again(items)
    assert next(again) == 2
    assert next(again) is again is later[2]


def test_deep() -> None:
    value: Any = None
    for _ in range(5000):
        value = (value, [])
    later = World().again(value)
    depth = 0
    while later is not None:
        later, depth = later[0], depth + 1
    assert depth == 5000


def test_deep_cycle() -> None:
    first = last = Plain()
    for _ in range(3000):
        last.next = Plain(before=last)  # type: ignore[attr-defined]
        last = last.next  # type: ignore[attr-defined]
    last.next = first  # type: ignore[attr-defined]
    check_rebuilt(first)


def test_recursive_function_works() -> None:
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    again = World().again(factorial)
    assert again is not factorial
    assert again(5) == 120


# -- instance dicts --


def test_dict_held_by_others() -> None:
    value = Plain(a=[1])
    later, attributes = check_rebuilt((value, vars(value)))
    attributes["b"] = 2
    assert later.b == 2


def test_dict_alone() -> None:
    value = Plain(a=[1])
    check_rebuilt([vars(value)])


def test_dict_reached_first() -> None:
    value = Plain(a=[1])
    value.self = value  # type: ignore[attr-defined]
    check_rebuilt([vars(value), value])


def test_dict_of_a_namespace() -> None:
    value = types.SimpleNamespace(a=[1])
    check_rebuilt([vars(value), value])


def test_dict_of_two() -> None:
    a, b = Plain(x=[1]), Plain()
    b.__dict__ = a.__dict__
    later = check_rebuilt([a, b])
    later[0].y = 3
    assert later[1].y == 3


def test_dict_of_a_subclass() -> None:
    value = Plain()
    value.__dict__ = Table(a=[1])
    later = World().again(value)
    assert type(vars(later)) is Table and later.a == [1] and later.a is not value.a  # type: ignore[attr-defined]


def test_dict_from_the_world() -> None:
    world = World()
    shadow = world.fetched({"a": 1}, real := {"a": 1})
    value = Plain()
    value.__dict__ = shadow
    assert vars(world.again(value)) is real
