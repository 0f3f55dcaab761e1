"""Stopping a program before its n-th instruction and going on natively.

`split(n)` is an engine for the oracle of the evaluator's tests: the evaluator runs a function up to
there, its frames become points and values, and `resume` makes the function that does the rest.
"""

import builtins
from collections.abc import Callable
from functools import cache
from typing import Any

from stator._native import _core as core
from stator._native._core import Frame
from stator.bytecode import Instruction, decode
from stator.emit.resume import resume
from stator.evaluator import Abort, plain, run_with
from stator.evaluator.loop import evaluate, evaluate_for
from stator.evaluator.points import Activation, Point, Saved, activations
from tests.evaluator import oracle

# Tracebacks of a run begin behind the frames of its harness.
oracle._HARNESS += (__file__,)  # type: ignore[assignment]

ATOMIC = frozenset({"KW_NAMES", "PRECALL"})
"""The instruction behind them belongs to them."""


class Stopped(Abort):
    """The program has come to the instruction."""

    def __init__(self, stack: list[Activation]) -> None:
        super().__init__("stopped")
        self.activations = stack


class Finished(Abort):
    """The program has ended before."""


class Impossible(Abort):
    """There can be no continuation here."""


def observe_split(program: oracle.Program, count: int) -> oracle.Outcome | type[Abort]:
    """What there is to see of a run in two pieces, or why there is none."""
    failed: list[type[Abort]] = []
    engine = split(count)

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return engine(function, *args, **kwargs)
        except (Finished, Impossible) as error:
            failed.append(type(error))
            raise

    names = builtins.__dict__
    before = names.copy()
    try:
        outcome = oracle.observe(run, program.prepare)
    finally:
        # A program that is abandoned doesn't put back what it has replaced.
        names.update(before)
    return failed[0] if failed else outcome


def split(count: int) -> Callable[..., Any]:
    """An engine that goes on natively after `count` instructions.

    Raises `Finished` if the program ends before, `Impossible` where it can't be split.
    """

    def engine(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        points, values = suspend(count, function, *args, **kwargs)
        try:
            made = resume(points, "continuation")
        except ValueError as error:
            raise Impossible from error
        values.reverse()
        return _caller(len(values))(made, values)

    return engine


def suspend(
    count: int, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[list[Point], list[Any]]:
    """Run the first instructions of a program: where it stands, and what it holds."""
    stopped = _run(count, function, args, kwargs)
    # Handlers that were left in the middle have not put it back.
    core.set_handled_exception(None)
    if isinstance(stopped, BaseException):
        raise stopped
    return _taken_apart(stopped)


def _taken_apart(stopped: list[Activation]) -> tuple[list[Point], list[Any]]:
    """A function of its own: tracebacks keep the frames below, with what they hold."""
    points: list[Point] = []
    values: list[Any] = []
    while stopped:
        activation = stopped.pop(0)
        point = activation.point(activation.locals)
        points.append(point)
        values += activation.values(point)
    return points, values


def _run(
    count: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Activation] | BaseException:
    ops = plain()
    outermost = True

    def counting(frame: Frame) -> bool:
        nonlocal outermost
        if not outermost:  # called from C code: the frames below can't be taken apart
            return evaluate(frame)
        outermost = False
        return evaluate_for(frame, iter(range(count)), stop)

    def stop(frame: Frame) -> BaseException:
        index, steps = _place(frame)
        if index and steps[index - 1].name in ATOMIC:
            return Impossible("within a call")
        _forget_copies(frame)
        return Stopped(activations(frame))

    ops.evaluate = counting  # type: ignore[method-assign]
    try:
        run_with(ops, function, *args, **kwargs)
    except Stopped as stopped:
        # Else it would live on in a cycle, and with it what was handled when it was raised.
        stopped.__context__ = stopped.__traceback__ = None
        return stopped.activations
    except Impossible as impossible:
        return impossible
    except BaseException:
        return Finished()
    return Finished()


def _place(frame: Frame) -> tuple[int, tuple[Instruction, ...]]:
    decoded = decode(frame.code)
    return decoded.index(frame.ip), decoded.instructions


def _forget_copies(frame: Frame) -> None:
    """COPY, POP_EXCEPT, RERAISE: the copy is a value, and so is, once it is popped, the slot."""
    index, steps = _place(frame)
    names = [step.name for step in steps[max(index - 2, 0) : index + 1]]
    stack = frame.stack
    if names[-2:] == ["COPY", "POP_EXCEPT"]:
        stack[-1] = stack[-1].exception
    elif names == ["COPY", "POP_EXCEPT", "RERAISE"]:
        index = max(index for index, value in enumerate(stack) if type(value) is Saved)
        stack[index] = stack[index].exception


@cache
def _caller(count: int) -> Callable[..., Any]:
    """Calls a function with values, taken from the end of a list, and keeps none of them."""
    arguments = ", ".join(["values.pop()"] * count)
    text = f"lambda function, values: function({arguments})"
    caller: Callable[..., Any] = eval(compile(text, __file__, "eval"))
    return caller
