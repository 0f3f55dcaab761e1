"""Strings and numbers in arguments that come out of a call as they are: the first compile does."""

import random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import stator

from .tools import Counting

pytestmark = pytest.mark.usefixtures("no_warnings")
KINDS: dict[str, list[Any]] = {
    "str": ["t0", "t1", "", "t3", "t1", "a longer one"],
    "int": [5, 6, 0, 1, -3, 2**20],
    "float": [0.5, 1.5, 0.0, -0.0, float("inf"), 1e-30],
}
# What is no such value, or nothing that can be left open.
OTHERS: list[Any] = [None, True, 2**40, 7, "t9", 0.25, float("nan"), (1, 2), 3 + 4j, b"x"]
KEPT = SimpleNamespace()
LOG: list[Any] = []


class Pair(NamedTuple):
    x: Tensor
    value: Any


class Whole(int):
    """An int with an `__eq__` of its own."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@stator.disable
def told(value: Any) -> None:
    LOG.append(value)


# ---- where the value is: what is passed, and how it is read

PLACES: dict[str, tuple[Any, Any]] = {
    "argument": (lambda v: v, lambda a: a),
    "item": (lambda v: {"tag": v, "n": 1}, lambda a: a["tag"]),
    "attribute": (lambda v: SimpleNamespace(tag=v), lambda a: a.tag),
    "tuple": (lambda v: (v, "other"), lambda a: a[0]),
    "list": (lambda v: [v], lambda a: a[0]),
    "named": (lambda v: Pair(torch.ones(1), v), lambda a: a.value),
}


# ---- what becomes of it


def returned(x: Tensor, v: Any) -> Any:
    return x.sin(), v


def contained(x: Tensor, v: Any) -> Any:
    return {"x": x.sin(), "v": [v, (v, 1)]}


def stored(x: Tensor, v: Any) -> Any:
    KEPT.value = v
    return x.sin()


def appended(x: Tensor, v: Any) -> Any:
    LOG.append(v)
    return x.sin()


def in_a_text(x: Tensor, v: Any) -> Any:
    return x.sin(), f"it is {v}."


def to_another(x: Tensor, v: Any) -> Any:
    y = x.sin()
    told(v)
    return y.cos()


def in_a_cell(x: Tensor, v: Any) -> Any:
    def later() -> Any:
        return v

    return x.sin(), later()


WAYS = [returned, contained, stored, appended, in_a_text, to_another, in_a_cell]


def compared(x: Tensor, v: Any) -> Any:
    return (x.sin() if v == KINDS["str"][0] else x.cos()), v


def decided(x: Tensor, v: Any) -> Any:
    return (x.sin() if v else x.cos()), v


def a_key(x: Tensor, v: Any) -> Any:
    return {v: x.sin()}, v


def of_a_type(x: Tensor, v: Any) -> Any:
    return x.sin() if isinstance(v, int) else x.cos(), v


def computed(x: Tensor, v: Any) -> Any:
    return (x * v, v) if type(v) in (int, float) else (x * len(str(v)), v)


def same(x: Tensor, v: Any) -> Any:
    return x.sin() if v is KEPT.value else x.cos(), v


USED = [compared, decided, a_key, of_a_type, computed, same]


def program(way: Any, read: Any) -> Any:
    def run(x: Tensor, given: Any) -> Any:
        return way(x, read(given))

    return run


def outcome(function: Any, x: Tensor, given: Any) -> str:
    KEPT.value = None
    LOG.clear()
    result = function(x, given)
    return str((result, KEPT.value, LOG))


def check(run: Any, calls: list[tuple[Tensor, Any]], backend: Any, **options: Any) -> None:
    stator.reset()
    compiled = stator.compile(run, backend=backend, recompile_limit=64, **options)
    for x, given in calls:
        assert outcome(compiled, x, given) == outcome(run, x, given)


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_compile(kind: str, place: str, way: Any) -> None:
    made, read = PLACES[place]
    run, backend = program(way, read), Counting()
    calls = [(torch.ones(3), made(value)) for value in KINDS[kind]]
    check(run, calls, backend)
    assert backend.graphs == 1 + (way is to_another)


@pytest.mark.parametrize("way", [*WAYS, *USED], ids=lambda f: f.__name__)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_like_eager(place: str, way: Any, dynamic: bool | None) -> None:
    """In any order, with other sizes, and with what is none of them."""
    made, read = PLACES[place]
    values = [each for values in KINDS.values() for each in values] + OTHERS + [Whole(5)]
    drawn = random.Random(f"{place} {way.__name__} {dynamic}")
    chosen = [drawn.choice(values) for _ in range(12)]
    if way is a_key:
        chosen = [each for each in chosen if each == each]
    calls = [(torch.ones(3 + n // 6), made(value)) for n, value in enumerate(chosen)]
    check(program(way, read), calls, "aot_eager", dynamic=dynamic)


def test_the_very_object() -> None:
    compiled = stator.compile(returned, backend="eager")
    for n in range(4):
        for value in ("".join(["t", str(n)]), 10**6 + n, n + 0.5):
            assert compiled(torch.ones(2), value)[1] is value


def test_two_that_are_equal_at_first() -> None:
    """That they are is nothing that was asked for."""

    def both(x: Tensor, a: Any, b: Any) -> Any:
        return x.sin(), a, b

    for first in ("t", 5, 0.5):
        backend = Counting()
        compiled = stator.compile(both, backend=backend)
        for b in (first, first * 3, first):
            assert compiled(torch.ones(2), first, b)[1:] == (first, b)
        assert backend.graphs == 1


def test_one_that_is_a_size_as_well() -> None:
    """It is passed on, and the program asks whether it is the size."""

    def run(x: Tensor, n: int) -> Any:
        return (x.sin() if x.shape[0] == n else x.cos()), n

    for dynamic in (None, True):
        compiled = stator.compile(run, backend="eager", dynamic=dynamic)
        for size, n in ((4, 4), (4, 5), (5, 5), (6, 5), (6, 6), (4, 4)):
            x = torch.ones(size)
            assert str(compiled(x, n)) == str(run(x, n))


def test_not_left_open_where_nothing_is() -> None:
    backend = Counting()
    compiled = stator.compile(returned, backend=backend, dynamic=False)
    for n in range(3):
        assert compiled(torch.ones(2), n)[1] == n
    assert backend.graphs == 3


def test_what_is_used_is_compiled_for_the_first_call_alone() -> None:
    """As without: sizes and numbers that the program computes with are open from the second on."""
    seen: list[list[str]] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append([type(each).__name__ for each in inputs])
        return module.forward

    compiled = stator.compile(computed, backend=backend)
    for n in range(3, 8):
        assert torch.equal(compiled(torch.ones(2), n)[0], torch.ones(2) * n)
    assert len(seen) == 2
    assert seen[0] == ["FakeTensor"]


def test_what_nobody_reads() -> None:
    """Items of tuples, and keywords: they are guarded together with others."""

    def run(x: Tensor, names: tuple[str, ...], *rest: Any, **options: Any) -> Any:
        return x * options.get("scale", 1.0), names[0]

    backend = Counting()
    compiled = stator.compile(run, backend=backend)
    for n in range(5):
        x, names, options = torch.ones(2), ("a", f"b{n}"), {"scale": 2.0, "name": f"n{n}"}
        assert str(compiled(x, names, 1, **options)) == str(run(x, names, 1, **options))
    assert backend.graphs == 1


def test_a_number_that_is_added_to() -> None:
    """`total = 0.0`, to which tensors are added: sizes that change at the same time are open."""
    backend = Counting()
    state: dict[str, Any] = {"total": 0.0, "count": 0}

    def run(x: Tensor) -> Any:
        state["total"] = state["total"] + x.sum()
        state["count"] += x.shape[0]
        return x * 2

    compiled = stator.compile(run, backend=backend)
    for n in range(3, 9):
        assert torch.equal(compiled(torch.ones(n)), torch.ones(n) * 2)
    assert state["total"].item() == state["count"] == sum(range(3, 9))
    assert backend.graphs == 2


@pytest.mark.parametrize("values", [(torch.sin, torch.cos), (len, abs)], ids=["torch", "python"])
def test_another_function_and_another_size(values: Any) -> None:
    backend = Counting()

    def run(x: Tensor, f: Any) -> Any:
        return x.sin() if f is values[0] else x.cos()

    compiled = stator.compile(run, backend=backend)
    for n in range(3, 11):
        x, f = torch.ones(n), values[n % 2]
        assert torch.equal(compiled(x, f), run(x, f))
    assert backend.graphs == 3  # one for a size, one for each function
