"""What guards record of functions and methods: the code is compared, the rest is for life."""

import os
from types import CodeType, FunctionType, MethodType
from typing import Any

import pytest

from stator import guards as G  # noqa: N812

X = G.Local(0, "x")


def one() -> int:
    return 1


def two() -> int:
    return 2


def code_of(function: Any) -> CodeType:
    code: CodeType = function.__code__
    return code


def copied(function: Any, namespace: dict[str, Any]) -> Any:
    return FunctionType(function.__code__, namespace)


class Holder:
    method: Any


def settled(tree: G.GuardTree, *values: Any) -> int:
    """How many levels are evaluated in a check, once it goes as the one before."""
    for _ in range(8):
        assert tree.check(values, None)
    before = tree.statistics()["evaluated"]
    assert tree.check(values, None)
    return tree.statistics()["evaluated"] - before


def holder() -> Any:
    class Fresh(Holder):
        method = copied(one, {})

    return Fresh()


def test_the_code_of_a_class_attribute() -> None:
    found = holder()
    method = G.ClassAttr(G.TypeOf(X), "method")
    tree = G.compile(
        [
            G.Guard(X, G.TypeIs(type(found))),
            G.Guard(G.Code(method), G.Is(code_of(one))),
        ]
    )
    assert settled(tree, found) <= 2  # the argument, its class
    type(found).method.__code__ = code_of(two)
    assert not tree.check((found,), None)
    type(found).method.__code__ = code_of(one)
    assert settled(tree, found) <= 2
    type(found).method = copied(two, {})
    assert not tree.check((found,), None)


def test_the_code_of_a_function_that_the_guards_know() -> None:
    known = copied(one, {})
    tree = G.compile([G.Guard(G.Code(G.Fixed(known)), G.Is(code_of(one)))])
    assert settled(tree) == 1  # the root
    known.__code__ = code_of(two)
    assert not tree.check((), None)
    known.__code__ = code_of(one)
    assert settled(tree) == 1


@pytest.mark.parametrize("held", [False, True])
def test_another_function_at_the_same_address(held: bool) -> None:
    """Its globals are its own, though it has the same code."""
    mine: dict[str, Any] = {"mine": True}
    place = G.Attr(X, "f") if held else X
    tree = G.compile(
        [
            G.Guard(place, G.TypeIs(FunctionType)),
            G.Guard(G.Code(place), G.Is(code_of(one))),
            G.Guard(G.GlobalsOf(place), G.Is(mine)),
        ]
    )
    holding: Any = Holder()

    def given(namespace: dict[str, Any]) -> Any:
        if not held:
            return copied(one, namespace)
        holding.f = copied(one, namespace)
        return holding

    found = given(mine)
    settled(tree, found)
    address = id(holding.f) if held else id(found)
    met = 0
    for _ in range(50):
        del found
        if held:
            del holding.f
        found = given({})
        met += (id(holding.f) if held else id(found)) == address
        assert not tree.check((found,), None)
    assert met or "ASAN_OPTIONS" in os.environ  # whose allocator keeps addresses unused for long
    del found
    assert tree.check((given(mine),), None)


def test_the_object_of_a_method() -> None:
    items: list[Any] = []
    place = G.Attr(X, "m")
    tree = G.compile(
        [
            G.Guard(place, G.TypeIs(MethodType)),
            G.Guard(G.MethodSelf(place), G.Is(items)),
            G.Guard(G.MethodFunction(place), G.Is(one)),
        ]
    )
    holding: Any = Holder()
    holding.m = MethodType(one, items)
    assert settled(tree, holding) <= 1
    for _ in range(20):
        del holding.m
        holding.m = MethodType(one, [])
        assert not tree.check((holding,), None)
    holding.m = MethodType(two, items)
    assert not tree.check((holding,), None)
    holding.m = MethodType(one, items)
    assert tree.check((holding,), None)


def test_defaults_are_looked_at_each_time() -> None:
    def function(n: int = 1) -> int:
        return n

    place = G.Index(G.Defaults(X), 0)
    tree = G.compile([G.Guard(place, G.Equal(1)), G.Guard(G.Code(X), G.Is(code_of(function)))])
    settled(tree, function)
    for _ in range(20):
        function.__defaults__ = (2,)
        assert not tree.check((function,), None)
        function.__defaults__ = (1,)
        assert tree.check((function,), None)
