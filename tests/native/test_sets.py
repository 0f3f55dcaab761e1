# mypy: ignore-errors
"""Copies of sets that have their elements at the same places."""

import random
import sys

import pytest

from stator._native import _core as core


def grown(seed, kind=str):
    """A set with a history: elements came and went."""
    draw = random.Random(seed)
    made = set()
    for _ in range(draw.randrange(40)):
        element = kind(draw.randrange(60))
        (made.discard if draw.random() < 0.3 else made.add)(element)
    return made


def copied(source, target=None):
    target = set() if target is None else target
    core.set_take_over(target, source)
    return target


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", [str, int])
def test_the_order_is_the_same_and_stays_it(seed, kind) -> None:
    source = grown(seed, kind)
    made = copied(source, grown(seed + 100, kind))
    assert list(made) == list(source) and made == source
    assert core.set_lies_as(made, source)
    for element in map(kind, range(20, 100, 7)):
        made.add(element)
        source.add(element)
        assert list(made) == list(source)
    while source:
        assert made.pop() == source.pop()
    assert not made


def test_some_copies_of_other_kinds_have_another_order() -> None:
    refilled = (set.union(set(), [*grown(seed)]) for seed in range(100))
    assert any([*made] != [*grown(seed)] for seed, made in enumerate(refilled))


def test_a_copy_is_independent() -> None:
    source = {"a", "b"}
    made = copied(source)
    made.add("c")
    source.discard("a")
    assert made == {"a", "b", "c"} and source == {"b"}


def test_frozensets() -> None:
    source = frozenset(grown(3))
    made = copied(source, frozenset(["x", "y"]))
    assert made == source and hash(made) == hash(source) and list(made) == list(source)


def test_references_are_counted() -> None:
    class Element:
        pass

    old, new = Element(), Element()
    before = sys.getrefcount(old), sys.getrefcount(new)
    target, source = {old}, {new}
    core.set_take_over(target, source)
    assert (sys.getrefcount(old), sys.getrefcount(new)) == (before[0], before[1] + 2)
    core.set_take_over(target, target)
    core.set_take_over(target, set())
    assert sys.getrefcount(new) == before[1] + 1
    large, small = set(map(str, range(500))), {"x"}
    core.set_take_over(small, large)
    core.set_take_over(large, {"y"})
    assert len(small) == 500 and large == {"y"}


def test_what_lies_otherwise() -> None:
    assert not core.set_lies_as({1, 2}, {1, 3})
    assert not core.set_lies_as({1, 2}, {1})
    gap = {1, 2, 9}
    gap.discard(9)
    assert gap == {1, 2} and not core.set_lies_as(gap, {1, 2})
    assert core.set_lies_as({1, 2}, frozenset([1, 2]))


def test_only_sets() -> None:
    for given in (([], set()), (set(), {}), (set(), None)):
        with pytest.raises(TypeError, match="two sets"):
            core.set_take_over(*given)
        with pytest.raises(TypeError, match="two sets"):
            core.set_lies_as(*given)
