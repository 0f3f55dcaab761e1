"""`is` asks a tracer only when it could tell two objects apart."""

from typing import Any

import pytest

from stator._native import _core
from stator.evaluator import plain, run, run_with


def compare(a: Any, b: Any) -> tuple[bool, bool]:
    return a is b, a is not b


def test_plain() -> None:
    one, other = [], []  # type: ignore[var-annotated]
    assert run(compare, one, one) == (True, False)
    assert run(compare, one, other) == (False, True)
    assert run(compare, None, False) == (False, True)


def test_only_different_objects_are_asked_about() -> None:
    asked = []
    operations = plain()

    def identical(frame: _core.Frame, a: Any, b: Any) -> bool:
        asked.append((frame.code, a, b))
        return (a, b) == (1.5, "the same")

    operations.identical = identical  # type: ignore[method-assign]
    same = object()
    assert run_with(operations, compare, same, same) == (True, False)
    assert asked == []
    assert run_with(operations, compare, 1, 2) == (False, True)
    assert asked == [(compare.__code__, 1, 2)] * 2
    assert run_with(operations, compare, 1.5, "the same") == (True, False)


def test_what_it_raises_is_raised() -> None:
    operations = plain()

    def identical(frame: _core.Frame, a: Any, b: Any) -> bool:
        _core.raise_user(KeyError("no"))

    operations.identical = identical  # type: ignore[method-assign]

    def catch(a: Any, b: Any) -> str:
        try:
            return str(a is b)
        except KeyError as error:
            return repr(error)

    assert run_with(operations, catch, 1, 2) == "KeyError('no')"


def test_arity() -> None:
    with pytest.raises(TypeError, match="takes 3 arguments"):
        _core.identical(None, 1)  # type: ignore[call-arg, arg-type]
