"""Leaving a program at every instruction: cleanup runs, as if the exception were raised there.

The reference is the evaluator, which raises the exception before the instruction itself.
"""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from stator._native import _core as core
from stator._native._core import Frame
from stator.emit.resume import leave
from stator.evaluator import plain, run_with
from stator.evaluator.loop import evaluate, evaluate_for
from tests.emit.splitting import Finished, Impossible, suspend

Log = list[Any]


class Boom(BaseException):
    """What is thrown."""


class Manager:
    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> str:
        self.log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.log.append(("exit", self.name, kind))


def blocks(log: Log) -> None:
    with Manager(log, "a") as a, Manager(log, "b"):
        log.append(a)
    log.append("behind")


def finals(log: Log) -> int:
    for i in range(2):
        try:
            log.append(i)
            if i:
                return i
        finally:
            log.append(("finally", i))
    return -1


def handlers(log: Log) -> None:
    try:
        try:
            raise KeyError("k")
        except KeyError as error:
            log.append(error.args)
            try:
                log.append("inner")
            except BaseException as inner:
                log.append((type(inner), type(inner.__context__)))
                raise
        log.append("between")
    except Boom:
        log.append("caught")


def branches(log: Log) -> None:
    for value in ([], [1]):
        if value:
            with Manager(log, "if"):
                log.append("in")
        else:
            log.append("else")


def callee(log: Log, x: int) -> int:
    try:
        return x + len(log)
    finally:
        log.append("callee")


def caller(log: Log) -> int:
    with Manager(log, "caller"):
        y = callee(log, 1) * callee(log, 2)
    log.append(y)
    return y


def closure(log: Log) -> None:
    x = 1

    def inner() -> None:
        nonlocal x
        try:
            x += 1
        finally:
            log.append(x)

    inner()
    inner()


PROGRAMS = [blocks, finals, handlers, branches, caller, closure]


class Ticks:
    """Run out once, after so many."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __iter__(self) -> "Ticks":
        return self

    def __next__(self) -> int:
        self.left -= 1
        if self.left == -1:
            raise StopIteration
        return self.left


def thrown_by_the_evaluator(count: int, program: Callable[[Log], Any], log: Log) -> Any:
    ops = plain()
    outermost = True

    def stop(frame: Frame) -> BaseException:
        frame.ip += 1  # it is the instruction that raises
        core.raise_user(Boom())

    def evaluated(frame: Frame) -> bool:
        nonlocal outermost
        if not outermost:
            return evaluate(frame)
        outermost = False
        return evaluate_for(frame, Ticks(count), stop)

    ops.evaluate = evaluated  # type: ignore[method-assign]
    return run_with(ops, program, log)


def outcome(action: Callable[[], Any]) -> object:
    try:
        return action()
    except BaseException as error:
        return type(error)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_instruction(program: Callable[[Log], Any]) -> None:
    done = 0
    for count in range(10_000):
        log: Log = []
        try:
            points, values = suspend(count, program, log)
            left = leave(points, "left")
        except Finished:
            break
        except (Impossible, ValueError):
            continue
        got = outcome(functools.partial(left, *values, Boom()))
        wanted_log: Log = []
        wanted = outcome(functools.partial(thrown_by_the_evaluator, count, program, wanted_log))
        assert log == wanted_log, f"left after {count} instructions"
        assert got == wanted
        done += 1
    assert done > 10
