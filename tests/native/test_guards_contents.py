"""Checks on attributes, slots and deques: what an instance holds, without asking its class."""

import weakref
from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any

import pytest

from stator import guards as G  # noqa: N812
from stator._native._core import GuardTree

from .test_guards_sources import X, agreed


class Plain:
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("user code ran")


class Slotted:
    __slots__ = ("a", "b")
    a: Any
    b: Any


class Both(Slotted):
    pass


def holds(check: G.Check, value: Any) -> bool:
    return agreed([G.Guard(X, check)], value)


def filled(cls: type, *names: str) -> Any:
    made = cls()
    for name in names:
        object.__setattr__(made, name, 1)
    return made


# -- all attributes --


def test_names_in_the_order_of_insertion() -> None:
    for cls in (Plain, SimpleNamespace, Both):
        value = filled(cls, "x", "y", "z")
        assert holds(G.AttrKeys(("x", "y", "z")), value)
        assert not holds(G.AttrKeys(("x", "z", "y")), value)
        assert not holds(G.AttrKeys(("x", "y")), value)
        assert not holds(G.AttrKeys(("x", "y", "z", "w")), value)
    first, second = filled(Plain, "p", "q"), filled(Plain, "q", "p")  # one class, two orders
    assert holds(G.AttrKeys(("p", "q")), first) and not holds(G.AttrKeys(("p", "q")), second)


def test_names_after_one_was_deleted() -> None:
    for cls in (Plain, Both):
        value = filled(cls, "x", "y", "z")
        object.__delattr__(value, "y")
        assert holds(G.AttrKeys(("x", "z")), value)
        object.__setattr__(value, "y", 2)
        assert holds(G.AttrKeys(("x", "z", "y")), value)


def test_what_has_no_attributes() -> None:
    values: tuple[Any, ...] = (5, [], Slotted(), filled(Plain), int)
    for value in values:
        assert holds(G.AttrKeys(()), value)
        assert not holds(G.AttrKeys(("x",)), value)


def test_names_that_are_no_str() -> None:
    value: Any = SimpleNamespace()
    value.__dict__[1] = 2
    assert holds(G.AttrKeys((1,)), value)  # type: ignore[arg-type]
    assert not holds(G.AttrKeys((True,)), value)  # type: ignore[arg-type]


def test_an_order_that_changes_is_seen() -> None:
    value: Any = Both()
    value.x, value.y = 1, 2
    tree = G.compile([G.Guard(G.Index(X, 0), G.AttrKeys(("x", "y")))])
    for _ in range(5):
        assert tree.check(([value],), None)
    value.x = 5  # the same names
    assert tree.check(([value],), None)
    moved = value.__dict__.pop("x")
    assert not tree.check(([value],), None)
    value.__dict__["x"] = moved
    assert not tree.check(([value],), None)
    value.__dict__ = {"x": 1, "y": 2}
    assert all(tree.check(([value],), None) for _ in range(5))
    assert tree.callbacks == 0


# -- empty slots --


def test_a_slot_that_holds_nothing() -> None:
    a, b = Slotted.__dict__["a"], Slotted.__dict__["b"]
    value = Slotted()
    value.a = 1
    assert not holds(G.SlotEmpty(a), value)
    assert holds(G.SlotEmpty(b), value)
    assert not holds(G.SlotEmpty(b), 5)
    tree = G.compile([G.Guard(X, G.SlotEmpty(b))])
    assert all(tree.check((value,), None) for _ in range(4))
    value.b = None
    assert not tree.check((value,), None)
    del value.b
    assert tree.check((value,), None)


def test_what_is_no_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="member that holds an object"):
        G.compile([G.Guard(X, G.SlotEmpty(property()))])  # type: ignore[arg-type]


# -- deques --


class Queue(deque[Any]):
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("user code ran")

    def __len__(self) -> int:
        raise AssertionError("user code ran")


def test_items_of_a_deque() -> None:
    for kind in (deque, Queue):
        value = kind(range(200))
        deque.rotate(value, 37)
        for index in (0, 1, 99, 199, -1, -200):
            expected = list(deque.__iter__(value))[index]
            assert agreed([G.Guard(G.Index(X, index), G.Equal(expected))], value)
        assert not agreed([G.Guard(G.Index(X, 200), G.IsNot(None))], value)
        assert not agreed([G.Guard(G.Index(X, -201), G.IsNot(None))], value)
        assert holds(G.Length(200), value)


def test_a_deque_that_changes() -> None:
    inner = SimpleNamespace(n=1)
    value = deque([inner, 2])
    tree = G.compile([G.Guard(X, G.Length(2)), G.Guard(G.Attr(G.Index(X, 0), "n"), G.Equal(1))])
    assert all(tree.check((value,), None) for _ in range(5))
    value.rotate(1)
    assert not tree.check((value,), None)
    value.rotate(1)
    assert tree.check((value,), None)
    inner.n = 2
    assert not tree.check((value,), None)
    inner.n = 1
    value.append(3)
    assert not tree.check((value,), None)


# -- records --


def test_empty_ordered_dicts_are_skipped() -> None:
    """The hooks of an nn.Module: all of its levels are recorded, and a change is seen."""
    owner = SimpleNamespace(hooks=OrderedDict(), names=OrderedDict(a=1))
    hooks, names = G.Attr(G.Index(X, 0), "hooks"), G.Attr(G.Index(X, 0), "names")
    tree: GuardTree = G.compile(
        [
            G.Guard(hooks, G.TypeIs(OrderedDict)),
            G.Guard(hooks, G.Length(0)),
            G.Guard(names, G.NoKey("b")),
            G.Guard(G.Key(names, "a"), G.Equal(1)),
        ]
    )
    for _ in range(5):
        assert tree.check(([owner],), None)
    before = tree.statistics()["evaluated"]
    assert tree.check(([owner],), None)
    assert tree.statistics()["evaluated"] - before == 2  # the root's level, and the list's
    for change, undo in (
        (lambda: owner.hooks.update(x=1), lambda: owner.hooks.pop("x")),
        (lambda: owner.names.update(b=1), lambda: owner.names.popitem()),
        (lambda: owner.names.update(a=2), lambda: owner.names.update(a=1)),
        (lambda: setattr(owner, "hooks", {}), lambda: setattr(owner, "hooks", OrderedDict())),
    ):
        change()
        assert not tree.check(([owner],), None)
        undo()
        assert all(tree.check(([owner],), None) for _ in range(4))


# -- words --


def test_paths_read_as_programs_do() -> None:
    model = G.Local(0, "self")
    layers = G.Key(G.Attr(model, "_modules"), "layers")
    first = G.Key(G.Attr(layers, "_modules"), "0")
    weight = G.Key(G.Attr(first, "_parameters"), "weight")
    assert str(weight) == "self.layers[0].weight"
    assert str(G.Key(G.Fixed({}, "globals of torch.nn.functional"), "relu")) == (
        "torch.nn.functional.relu"
    )
    assert str(G.Global("SCALE")) == "global SCALE"
    assert str(G.Key(G.Attr(model, "config"), "0")) == "self.config['0']"


@pytest.mark.parametrize(
    ("check", "value", "text"),
    [
        (G.TypeIs(dict), 1, "expected type dict, got type int"),
        (G.Is(len), print, "expected function len, got function print"),
        (G.Is(None), 1, "expected None, got 1"),
        (G.HasKey("a"), {"b": 1}, "expected a key 'a', got keys ('b',)"),
        (G.NoKey("a"), {"a": 1}, "expected no key 'a', got keys ('a',)"),
        (G.NoAttr("a"), SimpleNamespace(a=1), "expected no attribute a, got one"),
        (G.SubclassOf(str), 1, "expected an instance of str, got type int"),
        (
            G.AttrKeys(("a",)),
            SimpleNamespace(b=1),
            "expected attributes ('a',), in this order, got attributes ('b',)",
        ),
    ],
)
def test_words(check: G.Check, value: Any, text: str) -> None:
    failure = G.compile([G.Guard(X, check)]).explain((value,), None)
    assert str(failure) == f"guard 0: x: {text}"


def test_members_of_c_types_that_are_nothing() -> None:
    """C says None for them; a slot of a class that holds None is no empty one."""
    callback: Any = weakref.ref.__dict__["__callback__"]
    target = Plain()
    assert holds(G.SlotEmpty(callback), weakref.ref(target))
    assert not holds(G.SlotEmpty(callback), weakref.ref(target, print))
    slot: Any = Slotted.__dict__["a"]
    made = Slotted()
    assert holds(G.SlotEmpty(slot), made)
    made.a = None
    assert not holds(G.SlotEmpty(slot), made)
