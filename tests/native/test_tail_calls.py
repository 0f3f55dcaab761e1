"""Entries whose target says what is called next."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

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
