"""Entries whose target says what is called next."""

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from stator import guards as G  # noqa: N812
from stator._native._core import CALL_ORIGINAL, CompiledFunction


def never(compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
    return CALL_ORIGINAL


def compiled(target: Callable[..., Any], parameters: int = 1) -> CompiledFunction:
    names = ", ".join(f"p{index}" for index in range(parameters))
    namespace: dict[str, Any] = {}
    exec(f"def f({names}): raise AssertionError('not compiled')", namespace)
    made = CompiledFunction(namespace["f"], never)
    made.add_entry(None, target, tails=True)
    return made


def test_result() -> None:
    assert compiled(lambda x: (None, x + 1))(1) == 2


def test_chain() -> None:
    third = compiled(lambda x, y: (None, (x, y)), 2)
    second = compiled(lambda x: (third, x * 2, "y"))
    first = compiled(lambda x: (second, x + 1))
    assert first(1) == (4, "y")


def test_no_stack_is_used() -> None:
    depths = set()

    def count(n: int) -> tuple[Any, ...]:
        depth = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        depths.add(depth)
        return (looping, n - 1) if n else (None, "done")

    looping = compiled(count)
    assert looping(100_000 if sys.gettrace() is None else 100) == "done"
    assert len(depths) == 1


def test_exceptions_pass() -> None:
    def fail(x: int) -> tuple[Any, ...]:
        raise ValueError(x)

    failing = compiled(fail)
    first = compiled(lambda x: (failing, x))
    with pytest.raises(ValueError, match="7"):
        first(7)


def test_entries_without_the_flag_return_tuples() -> None:
    plain = CompiledFunction(lambda x: x, never)
    plain.add_entry(None, lambda x: (None, x))
    assert plain(3) == (None, 3)
    first = compiled(lambda x: (plain, x))
    assert first(4) == (None, 4)


def test_what_fetches_values_can_be_called() -> None:
    def target(fetched: tuple[Any, ...], x: int) -> int:
        assert fetched == ()
        return x * 10

    last = CompiledFunction(lambda x: x, never)
    last.add_entry(None, target, fetch=True)
    first = compiled(lambda x: (last, x))
    assert first(5) == 50


def test_misses_are_answered() -> None:
    calls: list[tuple[Any, ...]] = []

    def miss(compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        calls.append(bound)
        return compiled.add_entry(None, lambda x: (None, -x), tails=True)

    last = CompiledFunction(lambda x: x, miss)
    first = compiled(lambda x: (last, x))
    assert [first(1), first(2)] == [-1, -2]
    assert calls == [(1,)]


@pytest.mark.parametrize("answer", [None, 5, (), [1]])
def test_what_is_no_tuple_is_refused(answer: Any) -> None:
    with pytest.raises(SystemError, match="did not return a tuple"):
        compiled(lambda x: answer)(1)


def test_nothing_leaks() -> None:
    class Token:
        pass

    last = compiled(lambda x, y: (None, x), 2)
    first = compiled(lambda x: (last, x, Token()))
    token = Token()
    before = sys.getrefcount(token)
    for _ in range(1000):
        assert first(token) is token
        gc.collect(0)
    assert sys.getrefcount(token) == before
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Token and each is not token]


# ---- torch's state, of which the recursion limit is one here


@pytest.fixture
def limit() -> Iterator[int]:
    before = sys.getrecursionlimit()
    yield before
    sys.setrecursionlimit(before)


def guarded(target: Callable[..., Any], expected: int, *, steady: bool = False) -> CompiledFunction:
    """A function of one parameter that is compiled for one value of the state."""
    found = G.State(sys.getrecursionlimit, (), "limit", None)
    tree = G.compile([G.Guard(found, G.Equal(expected))])
    made = CompiledFunction(lambda x: ("eager", x), never)
    made.add_entry(tree, target, tails=True, steady=steady)
    return made


def test_state_is_not_asked_for_behind_a_steady_entry(limit: int) -> None:
    """Shown by entries that say so and are wrong."""

    def change(x: int) -> tuple[Any, ...]:
        sys.setrecursionlimit(limit + 1)
        return last, x

    last = guarded(lambda x: (None, ("compiled", x)), limit)
    assert guarded(change, limit, steady=True)(1) == ("compiled", 1)
    sys.setrecursionlimit(limit)
    assert guarded(change, limit)(1) == ("eager", 1)


def test_other_states_are_asked_for(limit: int) -> None:
    last = guarded(lambda x: (None, ("compiled", x)), limit + 1)
    assert guarded(lambda x: (last, x), limit, steady=True)(1) == ("eager", 1)


def test_what_follows_another_entry_is_asked_for(limit: int) -> None:
    """Only the entry just before counts."""

    def change(x: int) -> tuple[Any, ...]:
        sys.setrecursionlimit(limit + 1)
        return last, x

    last = guarded(lambda x: (None, ("compiled", x)), limit)
    unsteady = guarded(change, limit)
    assert guarded(lambda x: (unsteady, x), limit, steady=True)(1) == ("eager", 1)


def test_a_miss_does_not_count_as_known(limit: int) -> None:
    def compile_now(made: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        sys.setrecursionlimit(limit + 1)
        return made.add_entry(None, lambda x: (last, x), tails=True)

    last = guarded(lambda x: (None, ("compiled", x)), limit)
    missing = CompiledFunction(lambda x: x, compile_now)
    assert guarded(lambda x: (missing, x), limit, steady=True)(1) == ("eager", 1)


def test_long_chains_ask_now_and_then(limit: int) -> None:
    calls = 0

    def count(x: int) -> tuple[Any, ...]:
        nonlocal calls
        calls += 1
        sys.setrecursionlimit(limit + 1)
        return looping, x

    looping = guarded(count, limit, steady=True)
    assert looping(1) == ("eager", 1)
    assert calls == 8
