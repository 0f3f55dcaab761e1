"""The index of a bucket: only entries that can hold are tried, and none that can is left out."""

import gc
import random
import weakref
from typing import Any

import pytest

from stator._native._core import CompiledFunction
from stator.guards import Callback, Check, Equal, Guard, Is, Local, TypeIs, compile

from .dispatching import no_miss, on_parameter, wrap


def two_parameters(x: Any, y: Any) -> Any:
    return x, y


def naming(name: object) -> Any:
    return lambda *bound: name


def filled(checks: list[list[Check]]) -> tuple[CompiledFunction, list[Any]]:
    """A function with an entry for each list, whose first check is on x, the second on y …"""
    c = wrap(two_parameters)
    trees = []
    for number, each in enumerate(checks):
        tree = compile([Guard(Local(i), check) for i, check in enumerate(each)])
        c.add_entry(tree, naming(number))
        trees.append(tree)
    return c, trees


def checked(trees: list[Any]) -> int:
    total = 0
    for tree in trees:
        total += tree.statistics()["checked"]
    return total


class Thing:
    """Compared by identity."""


CONSTANTS: list[Any] = [0, 1, -1, 2**70, True, False, None, "", "1", b"1", "ä" * 50]


@pytest.mark.parametrize("position", [0, 1])
def test_one_entry_is_tried_where_constants_differ(position: int) -> None:
    anything = TypeIs(int)
    checks: list[list[Check]] = [
        [anything, Equal(value)] if position else [Equal(value), anything] for value in CONSTANTS
    ]
    c, trees = filled(checks)
    before = checked(trees)
    for number, value in enumerate(CONSTANTS):
        assert c(*((5, value) if position else (value, 5))) == number
    assert checked(trees) - before == len(CONSTANTS)


def test_one_entry_is_tried_where_objects_differ() -> None:
    things = [Thing() for _ in range(32)]
    c, trees = filled([[Is(thing)] for thing in things])
    before = checked(trees)
    assert [c(thing, 0) for thing in things] == list(range(32))
    assert checked(trees) - before == 32


def test_what_none_demands_is_no_hit() -> None:
    c, _ = filled([[Equal(value)] for value in CONSTANTS])
    for value in (2, "2", 1.0, 0.0, Thing(), ()):
        with pytest.raises(AssertionError, match="has no entry"):
            c(value, 0)


class Hostile(int):
    """Equal to all, and hashes like 1; no guard may ask it."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked for equality")

    def __hash__(self) -> int:
        raise AssertionError("asked for its hash")


def test_no_code_of_the_program_runs() -> None:
    c, _ = filled([[Equal(value)] for value in range(8)])
    with pytest.raises(AssertionError, match="has no entry"):
        c(Hostile(1), 0)


def test_nans_and_zeros_are_found() -> None:
    values = [float("nan"), 0.0, -0.0, 1.0, 2.0]
    c, _ = filled([[Equal(value)] for value in values])
    assert c(float("nan"), 0) == 0
    assert c(float("-0.0"), 0) == 2


def test_entries_that_demand_nothing_are_tried_too() -> None:
    c, _ = filled([[Equal(n)] for n in range(8)])
    c.add_entry(on_parameter(1, Equal("y")), naming("other"))
    assert c(3, "y") == 3  # both hold: the one that was found by the index wins
    assert c(99, "y") == "other"


def test_the_index_follows_the_entries() -> None:
    c, _ = filled([[Equal(n)] for n in range(8)])
    entry = c.add_entry(on_parameter(0, Equal(100)), naming("new"))
    assert c(100, 0) == "new"
    c.remove_entry(entry)
    with pytest.raises(AssertionError, match="has no entry"):
        c(100, 0)
    c.clear()
    with pytest.raises(AssertionError, match="has no entry"):
        c(1, 0)


def test_a_shared_bucket_is_searched_by_its_index() -> None:
    c, trees = filled([[Equal(n)] for n in range(16)])
    reader = CompiledFunction(two_parameters, no_miss, shared=c.bucket)
    before = checked(trees)
    assert [reader(n, 0) for n in range(16)] == list(range(16))
    assert checked(trees) - before == 16


def test_objects_are_freed_with_the_bucket() -> None:
    c, _ = filled([[Equal(n)] for n in range(8)])
    alive = weakref.ref(c)
    c.attribute = c  # type: ignore[attr-defined]
    for entry in c.entries():
        entry.target.__dict__["cycle"] = c
    del c, entry
    gc.collect()
    assert alive() is None


def test_the_bucket_may_change_while_it_is_searched() -> None:
    """A guard that runs Python code clears the bucket."""
    c = wrap(two_parameters)

    def clear(value: Any) -> bool:
        c.clear()
        gc.collect()
        return bool(value)

    for n in range(8):
        guards = [Guard(Local(0), Equal(n)), Guard(Local(1), Callback(clear))]
        c.add_entry(compile(guards), naming(n))
    assert c(3, True) == 3
    assert c.entries() == ()


def test_random_buckets_against_trying_all() -> None:
    """Whatever the entries demand: there is a hit if and only if one of them holds."""
    source = random.Random(1)
    things = [Thing(), Thing(), 1, "1", True, None, 7]

    def check() -> Check:
        value = source.choice(things)
        kind = source.randrange(3)
        if kind == 0 and not isinstance(value, Thing):
            return Equal(value)
        return Is(value) if kind == 1 else TypeIs(type(value))

    for _ in range(200):
        lists = [[check() for _ in range(source.randrange(3))] for _ in range(source.randrange(12))]
        c, trees = filled(lists)
        for _ in range(20):
            bound = source.choice(things), source.choice(things)
            holding = [n for n, tree in enumerate(trees) if tree.check(bound, two_parameters)]
            if holding:
                assert c(*bound) in holding
            else:
                with pytest.raises(AssertionError, match="has no entry"):
                    c(*bound)


def sized(*shape: int) -> Any:
    torch = pytest.importorskip("torch")
    return torch.empty(shape)


def test_tensors_of_many_shapes() -> None:
    torch = pytest.importorskip("torch")
    from stator.guards.tensors import tensor_match  # noqa: PLC0415 - needs torch

    shapes = [(), (0,), (1,), (2, 3), (3, 2), (1, 2, 3, 4, 5, 6), (6,), (2, 3, 1)]
    c, trees = filled([[tensor_match(sized(*shape))] for shape in shapes])
    before = checked(trees)
    assert [c(sized(*shape), 0) for shape in shapes] == list(range(len(shapes)))
    assert checked(trees) - before == len(shapes)
    for other in (sized(7), sized(2, 3).double(), sized(2, 3).t(), 3, torch.nn.Parameter(sized(6))):
        with pytest.raises(AssertionError, match="has no entry"):
            c(other, 0)


def test_without_native_tensors_all_are_tried() -> None:
    pytest.importorskip("torch")
    from stator.guards import tensors  # noqa: PLC0415 - needs torch

    shapes = [(n,) for n in range(8)]
    c, _ = filled([[tensors.tensor_match(sized(*shape))] for shape in shapes])
    try:
        assert tensors.calibrate("functions") is not None
        assert [c(sized(*shape), 0) for shape in shapes] == list(range(8))
    finally:
        tensors.calibrate("")
