"""From guards to a tree: what is shared, in which order, and what is refused."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from stator import guards as G  # noqa: N812
from stator._native._core import GUARD_CHECKS, GUARD_EXPRS, GUARD_SOURCES

from .test_guards_sources import X


class Raw(NamedTuple):
    """A source or a check as the native side sees one, whatever it says."""

    argument: Any = None
    base: Any = None


def raw(op: Any, argument: Any = None, base: Any = None) -> Any:
    return type("Raw", (Raw,), {"op": op, "cost": 0})(argument, base)


def source(op: str, argument: Any = None, base: Any = None) -> Any:
    return raw(GUARD_SOURCES.index(op), argument, base)


def check(op: str, argument: Any = None) -> Any:
    return raw(GUARD_CHECKS.index(op), argument)


CONST, INT, ADD = (GUARD_EXPRS.index(name) for name in ("CONST", "INT", "ADD"))


@pytest.mark.parametrize(
    ("at", "must"),
    [
        (raw(99), check("IS")),
        (raw(-1), check("IS")),
        (raw("LOCAL"), check("IS")),
        (source("ROOT"), check("IS")),
        (source("LOCAL", "x"), check("IS")),
        (source("LOCAL", -1), check("IS")),
        (source("LOCAL", 2**80), check("IS")),
        (source("LOCAL", 0, X), check("IS")),
        (source("ATTR", "a"), check("IS")),
        (source("ATTR", 5, X), check("IS")),
        (source("KEY", [], X), check("IS")),
        (source("SLOT", "a", X), check("IS")),
        (source("CALL", print), check("IS")),
        (source("CALL", (lambda: 1, ())), check("IS")),
        (source("ATTR", "a", G.State(len)), check("IS")),
        (G.State(len), check("LENGTH", 1)),
        (G.State(len), check("DISTINCT", (X,))),
        (X, raw(99)),
        (X, check("TYPE_IS", "no type")),
        (X, check("SUBTYPE", 1)),
        (X, check("EQUAL", [])),
        (X, check("LENGTH", "long")),
        (X, check("KEYS", [])),
        (X, check("KEYS", ([],))),
        (X, check("NO_ATTR", 1)),
        (X, check("ALIASED", [X])),
        (X, check("DISTINCT", (5,))),
        (X, check("DISTINCT", (G.State(len),))),
        (None, check("TYPE_IS", int)),
        (None, check("LENGTH", 1)),
        (None, check("CALLBACK", print)),
        (None, check("DISTINCT", (X,))),
        (None, check("RELATION", ())),
        (None, check("RELATION", ((), ((CONST, 0, 1),)))),
        (None, check("RELATION", ((X,), ((99, 0, 0),)))),
        (None, check("RELATION", ((X,), ((ADD, 0, 0),)))),
        (None, check("RELATION", ((X,), ((INT, 4, 0),)))),
        (5, check("IS")),
        (X, 5),
    ],
)
def test_malformed_guards_are_refused(at: Any, must: Any) -> None:
    good = G.Guard(G.Attr(X, "fine"), G.Equal((1, 2)))
    bad = SimpleNamespace(source=at, check=must)
    for guards in ((bad,), (good, bad), (good, bad, good)):
        with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)):
            G.GuardTree(guards)
    with pytest.raises((TypeError, AttributeError)):
        G.GuardTree((good, None))
    with pytest.raises(TypeError):
        G.GuardTree([good])  # type: ignore[arg-type]


def test_what_sources_share() -> None:
    """Sources that mean the same are one node, whatever objects they are made of."""

    def nodes(*sources: G.Source) -> int:
        tree = G.compile([G.Guard(s, G.IsNot(None)) for s in sources])
        return tree.statistics()["nodes"] - 1

    class Unlike:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __hash__(self) -> int:
            return 1

    one, other = Unlike(), Unlike()
    nan = float("nan")
    assert nodes(*(G.Attr(G.Attr(G.Local(0), "a"), n) for n in "xyx")) == 4
    assert nodes(G.Attr(X, "a"), G.ModuleAttr(X, "a")) == 3
    assert nodes(*(G.Key(X, k) for k in (1, True, 1.0, "1", b"1", None))) == 7
    assert nodes(*(G.Key(X, k) for k in (1000, int("1000"), "ab", "".join("ab")))) == 3
    assert nodes(*(G.Key(X, k) for k in ((1, (2, 3)), (1, (2, int("3"))), (1, (2, 3.0))))) == 3
    assert nodes(*(G.Key(X, k) for k in (nan, nan, float("nan")))) == 3
    assert nodes(*(G.Key(X, k) for k in (one, other, one))) == 3
    lists: list[list[int]] = [[], []]
    assert nodes(*map(G.Fixed, (*lists, *lists))) == 2
    assert nodes(*(G.Attr(X, f"a{i % 5000}") for i in range(10_000))) == 5001


def test_a_long_chain() -> None:
    """As long as a linked list: nothing here recurses."""

    class Link:
        next: Any

    source: G.Source = X
    first = last = Link()
    for _ in range(20_000):
        source = G.Attr(source, "next")
        last.next = Link()
        last = last.next
    tree = G.compile([G.Guard(source, G.Is(last))], outputs=[source])
    assert tree.values((first,), None) == (last,)
    while first is not last:  # free them one by one
        first = first.next


def test_outputs_lead_somewhere() -> None:
    tree = G.compile([G.Guard(X, G.TypeIs(dict))], outputs=[X, G.Attr(G.Key(X, "a"), "b")])
    for value in ({}, {"a": 1}):
        assert not tree.check((value,), None)
        failure = tree.explain((value,), None)
        assert (failure.index, failure.guard) == (~1, None)
        assert str(failure) == "output 1: x['a'].b: expected a value, got nothing there"


def test_order_of_checks() -> None:
    """The type first, whatever the order of the guards; then what is cheap."""
    tree = G.compile([
        G.Guard(X, G.Keys(("a",))),
        G.Guard(X, G.Length(1)),
        G.Guard(X, G.TypeIs(dict)),
    ])  # fmt: skip
    assert tree.explain(([1, 2],), None).index == 2
    assert tree.explain(({"a": 1, "b": 2},), None).index == 1
    assert tree.explain(({"b": 1},), None).index == 0
