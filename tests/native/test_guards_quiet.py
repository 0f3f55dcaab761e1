"""Quiet trees: almost nothing is looked at while nothing is known to have changed.

Each program changes something that one of the two counts, the versions or the objects' addresses
might hide.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stator import guards as G  # noqa: N812
from stator._native import _core

from .guard_versions import VERSIONS, needs_versions, noticing

X = G.Local(0, "x")


@pytest.fixture(params=VERSIONS, autouse=True)
def versions(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from noticing(request.param)


class Module:
    a: Any
    kids: dict[str, Any]
    items: list[Any]
    pair: tuple[Any, ...]
    step: int

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Twin(Module):
    pass


class Weakly:
    __slots__ = ("__weakref__",)


class WithDict(Weakly):
    """Its `__dict__` is in the other of CPython's two tables."""

    a: Any
    b: Any


class OwnError(Exception):
    """Its `__dict__` is set by a function of a C type, which nobody counts."""

    a: Any


class Marked:
    """No attributes of its own: nothing but its class is guarded."""

    __slots__ = ()
    kind = 1


class Unmarked:
    __slots__ = ()
    kind = 2


def quiet(guards: list[G.Guard], *locals: Any) -> G.GuardTree:
    """A tree that has passed until it made its list."""
    tree = G.compile(guards)
    for _ in range(8):
        assert tree.check(locals, None), tree.explain(locals, None)
    assert tree.statistics()["looks"] >= 0
    return tree


def looks(tree: G.GuardTree) -> int:
    return int(tree.statistics()["looks"])


def family(children: int, make: Callable[[], Any]) -> tuple[Module, list[G.Guard]]:
    """An object with children by name, each with `a` guarded; the type of each guarded."""
    kids = {f"k{i}": make() for i in range(children)}
    source = G.Attr(X, "kids")
    guards = [G.Guard(X, G.TypeIs(Module))]
    for name, kid in kids.items():
        kid.a = 1
        found = G.Item(source, name)
        guards += [G.Guard(found, G.TypeIs(type(kid))), G.Guard(G.Attr(found, "a"), G.Equal(1))]
    return Module(kids=kids), guards


def test_a_model_of_any_size_is_a_handful_of_looks(versions: str) -> None:
    needs_versions()
    x, guards = family(300, Module)
    tree = quiet(guards, x)
    # With watchers nothing but the argument; else a version of each dict.
    assert looks(tree) == (1 if versions == "watchers" else 302)
    evaluated = tree.statistics()["evaluated"]
    assert tree.check((x,), None)
    assert tree.statistics()["evaluated"] == evaluated + 1


def test_small_trees_have_no_list() -> None:
    _core.guard_quiet_from(16)
    x, guards = family(3, Module)
    tree = G.compile(guards)
    assert all(tree.check((x,), None) for _ in range(8))
    assert looks(tree) == -1


def test_changes_in_the_depth_are_seen_each_time() -> None:
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    for round in range(40):
        kid = x.kids[f"k{round % 20}"]
        kid.a = 2
        assert not tree.check((x,), None)
        kid.a = 1
        for _ in range(round % 9):
            assert tree.check((x,), None)


@pytest.mark.parametrize("make", [Module, WithDict, OwnError])
def test_a_dict_that_is_replaced_is_seen(make: Callable[[], Any]) -> None:
    x, guards = family(20, make)
    tree = quiet(guards, x)
    x.kids["k7"].__dict__ = {"a": 2}
    assert not tree.check((x,), None)
    x.kids["k7"].__dict__ = {"a": 1}
    assert all(tree.check((x,), None) for _ in range(8))
    x.kids["k7"].__dict__["a"] = 2  # of the new one
    assert not tree.check((x,), None)


@pytest.mark.parametrize("setter", ["assignment", "object", "type"])
def test_a_class_that_is_replaced_is_seen(setter: str) -> None:
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    kid = x.kids["k7"]
    match setter:
        case "assignment":
            kid.__class__ = Twin
        case "object":
            object.__setattr__(kid, "__class__", Twin)
        case _:
            object.__dict__["__class__"].__set__(kid, Twin)
    assert not tree.check((x,), None)
    kid.__class__ = Module
    assert tree.check((x,), None)


def test_assignments_to_others_only_cost_a_walk() -> None:
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    before = looks(tree)
    for _ in range(5):
        Module().__dict__ = {}
        assert tree.check((x,), None)
        assert looks(tree) == before


def test_a_dict_nobody_counts_is_looked_at() -> None:
    x, guards = family(20, OwnError)
    assert looks(quiet(guards, x)) >= 20


def test_assignments_are_counted() -> None:
    assert _core.guard_rebindings() is not None
    assignments: list[Callable[[Any], None]] = [
        lambda o: setattr(o, "__dict__", {}),
        lambda o: setattr(o, "__class__", Twin),
        lambda o: delattr(o, "__dict__"),
    ]
    for assign in assignments:
        before = _core.guard_rebindings()
        assign(Module())
        assert _core.guard_rebindings() != before


def test_assignments_fail_as_before() -> None:
    with pytest.raises(TypeError, match="__dict__ must be set to a dictionary"):
        Module().__dict__ = 1  # type: ignore[assignment]
    with pytest.raises(TypeError, match="__class__ assignment"):
        Module().__class__ = int  # type: ignore[assignment]
    with pytest.raises(TypeError, match="object layout differs"):
        Module().__class__ = Marked  # type: ignore[assignment]


def test_code_that_runs_in_the_middle_of_an_assignment() -> None:
    """A finalizer of the old dict's contents checks the guards when all has happened already."""
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    seen: list[bool] = []

    class Witness:
        def __del__(self) -> None:
            seen.extend(tree.check((x,), None) for _ in range(6))

    x.kids["k3"].__dict__["witness"] = Witness()
    assert all(tree.check((x,), None) for _ in range(8))
    x.kids["k3"].__dict__ = {"a": 2}
    assert seen == [False] * 6
    assert not tree.check((x,), None)


def test_hooks_that_run_before_an_assignment_do_not_settle_it() -> None:
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    kid = x.kids["k3"]
    armed = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if armed and event == "object.__setattr__":
            for _ in range(8):
                tree.check((x,), None)

    sys.addaudithook(hook)
    kid.__class__ = Twin
    armed = False
    assert not tree.check((x,), None)


def test_another_argument_at_the_address_of_a_dead_one() -> None:
    """Nothing holds an argument between two calls."""
    guards = [G.Guard(G.ClassAttr(G.TypeOf(X), "kind"), G.Equal(1))]
    o = Marked()
    tree = quiet(guards, o)
    address = id(o)
    del o
    taken = [Unmarked() for _ in range(100)]
    for other in taken:
        assert not tree.check((other,), None)
    if all(id(other) != address for other in taken):
        pytest.skip("this allocator keeps what was freed")


def test_another_item_of_a_list_at_the_address_of_a_dead_one() -> None:
    """Lists have no version, so what they contain is looked at each time."""
    item = G.Index(G.Attr(X, "items"), 0)
    guards = [G.Guard(G.ClassAttr(G.TypeOf(item), "kind"), G.Equal(1))]
    x = Module(items=[Marked()])
    tree = quiet(guards, x)
    address = id(x.items[0])
    x.items[0] = None
    taken = [Unmarked() for _ in range(100)]
    for other in taken:
        x.items[0] = other
        assert not tree.check((x,), None)
    if all(id(other) != address for other in taken):
        pytest.skip("this allocator keeps what was freed")


@pytest.mark.parametrize("inside", [False, True])
def test_tuples(inside: bool) -> None:
    """An argument's tuple is another one each time; one in a dict is held there."""
    pair = G.Attr(X, "pair") if inside else X
    first = G.Index(pair, 0)
    guards = [G.Guard(first, G.TypeIs(Module)), G.Guard(G.Attr(first, "a"), G.Equal(1))]
    kid = Module(a=1)

    def argument(value: Any) -> Any:
        return Module(pair=(value,)) if inside else (value,)

    x = argument(kid)
    tree = quiet(guards, x)
    for value in (Module(a=2), Twin(a=1), kid):
        expected = value is kid
        assert tree.check((argument(value),), None) == expected
        if inside:
            x.pair = (value,)
            assert tree.check((x,), None) == expected
    kid.a = 2
    assert not tree.check((argument(kid),), None)


def test_a_level_that_keeps_changing_does_not_end_the_list_of_others() -> None:
    x, guards = family(50, Module)
    guards += [G.Guard(G.Attr(X, "step"), G.TypeIs(int))]
    x.step = 0
    tree = quiet(guards, x)
    for _ in range(600):  # until nobody waits for it to settle down
        x.step += 1
        assert tree.check((x,), None)
    x.kids["k3"].a = 2
    assert not tree.check((x,), None)


def test_class_attributes_are_seen() -> None:
    class Local(Module):
        scale = 1

    kid = G.Item(G.Attr(X, "kids"), "k0")
    guards = [G.Guard(G.ClassAttr(G.TypeOf(kid), "scale"), G.Equal(1))]
    x = Module(kids={"k0": Local()})
    tree = quiet(guards, x)
    Local.scale = 2
    assert not tree.check((x,), None)
    Local.scale = 1
    assert tree.check((x,), None)


def test_dead_models_are_not_kept() -> None:
    x, guards = family(20, Module)
    tree = quiet(guards, x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    y, _ = family(20, Module)
    assert tree.check((y,), None)
    y.kids["k1"].a = 2
    assert not tree.check((y,), None)
