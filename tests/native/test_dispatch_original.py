"""Targets that leave a call to the wrapped function, since they could not do it."""

import sys
from typing import Any

import pytest

from stator._native._core import RunOriginal

from .dispatching import entered, wrap


def original(x: Any, y: Any = 2, *rest: Any, **named: Any) -> Any:
    return "original", x, y, rest, named


def refusing(*bound: Any) -> Any:
    raise RunOriginal


def test_the_wrapped_function_gets_the_arguments_as_they_were() -> None:
    c = entered(original, target=refusing)
    assert c(1) == ("original", 1, 2, (), {})
    assert c(1, 3, 4, a=5) == ("original", 1, 3, (4,), {"a": 5})
    assert c(y=1, x=0) == ("original", 0, 1, (), {})


def plain(x: Any) -> Any:
    if isinstance(x, Exception):
        raise x
    return "plain", x


def test_without_binding() -> None:
    assert entered(plain, target=refusing)(1) == ("plain", 1)


def test_its_exceptions_are_its_own() -> None:
    c = entered(plain, target=refusing)
    with pytest.raises(ValueError, match="mine") as caught:
        c(ValueError("mine"))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    frames = []
    step = caught.value.__traceback__
    while step is not None:
        frames.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    assert frames == ["test_its_exceptions_are_its_own", "plain"]


def test_what_is_reported_when_it_has_returned() -> None:
    reports: list[str] = []

    def refuse(x: Any) -> Any:
        raise RunOriginal(lambda: reports.append("returned"))

    c = entered(plain, target=refuse)
    assert c(1) == ("plain", 1)
    assert reports == ["returned"]
    with pytest.raises(ValueError, match="mine"):
        c(ValueError("mine"))
    assert reports == ["returned"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_report_that_fails_changes_nothing() -> None:
    def refuse(x: Any) -> Any:
        raise RunOriginal(lambda: 1 / 0)

    assert entered(plain, target=refuse)(1) == ("plain", 1)


def test_behind_a_tail_call() -> None:
    rest = entered(plain, target=refusing)
    c = wrap(plain)
    c.add_entry(None, lambda x: (rest, x + 1), tails=True)
    assert c(1) == ("plain", 2)


def test_in_place_of_a_tail_call() -> None:
    c = wrap(plain)
    c.add_entry(None, refusing, tails=True)
    assert c(1) == ("plain", 1)


def test_in_the_call_that_made_the_entry() -> None:
    def miss(compiled: Any, bound: Any) -> Any:
        return compiled.add_entry(None, refusing)

    assert wrap(plain, miss)(1) == ("plain", 1)


def test_other_exceptions_leave() -> None:
    def fail(x: Any) -> Any:
        raise KeyError(x)

    with pytest.raises(KeyError):
        entered(plain, target=fail)(1)


def test_without_leaks() -> None:
    c = entered(plain, target=refusing)
    argument = object()
    before = sys.getrefcount(argument)
    for _ in range(100):
        c(argument)
    assert sys.getrefcount(argument) == before
