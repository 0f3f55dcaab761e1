"""A bug of the evaluator is reported as such, not as an exception of the program."""

import pytest

from stator.evaluator import InternalError, plain, run, run_with
from stator.evaluator.registry import SELECTORS


def test_a_bug_in_a_handler(monkeypatch):
    def failing(f, operand):
        raise KeyError("a bug")

    # The handler pretends to be the evaluator's own code.
    import stator.evaluator.loop as loop

    code = failing.__code__.replace(co_filename=loop.__file__)
    failing.__code__ = code
    monkeypatch.setitem(SELECTORS, "UNARY_NEGATIVE", lambda d, i: (failing, None))

    def program(x):
        try:
            return -x
        except Exception:
            return "swallowed"

    with pytest.raises(InternalError, match="UNARY_NEGATIVE") as info:
        run(program, 1)
    assert "program" in str(info.value)
    assert isinstance(info.value.__cause__, KeyError)


def test_a_bug_while_preparing(monkeypatch):
    monkeypatch.delitem(SELECTORS, "UNARY_INVERT")

    def callee(x):
        return ~x

    def program(x):
        try:
            return callee(x)
        except Exception:
            return "swallowed"

    with pytest.raises(InternalError, match=r"prepare .*callee"):
        run(program, 1)


def test_an_exception_of_an_operation_is_the_programs():
    ops = plain()

    def negative(frame, value):
        raise ArithmeticError("not today")

    ops.negative = negative

    def program(x):
        try:
            return -x
        except ArithmeticError as error:
            return str(error)

    assert run_with(ops, program, 1) == "not today"


def test_an_abandoned_deep_stack_is_freed(monkeypatch):
    import sys

    monkeypatch.delitem(SELECTORS, "UNARY_INVERT")
    limit = sys.getrecursionlimit()

    def bottom(x):
        return ~x

    def deep(n):
        return deep(n - 1) if n else bottom(n)

    try:
        sys.setrecursionlimit(60_000)
        with pytest.raises(InternalError):
            run(deep, 50_000)
    finally:
        sys.setrecursionlimit(limit)
