"""The loop: runs frames, one instruction after the other.

In: a base frame, from the native core, which has intercepted it. Out: the frame's `result`, and
whether it is a value (or a yielded value) or an exception. A call of a Python function pushes a
frame and goes on in it; only calls that come back through C code start another loop.
"""

from collections.abc import Callable, Iterator
from typing import Any

from stator._native._core import Frame, is_user_error, was_raised
from stator.evaluator.errors import Abort, InternalError
from stator.evaluator.points import Lasti
from stator.evaluator.registry import EXIT, RERAISE, Signal
from stator.objects import is_subtype


def evaluate(frame: Frame) -> bool:
    """Run a base frame to its end or suspension: True for a value, False for an exception.

    A signal handler may raise between any two steps of this code. Such an exception counts as
    raised by the instruction that runs, or by the call that has just returned.
    """
    f: Any = frame
    signal: Any = frame.thrown
    thrown, frame.thrown = signal, None
    failures = 0  # of unwinding, in a row
    while True:
        try:
            if signal is EXIT:
                return True
            if signal is not None:
                f, signal, thrown, failures = unwind(f, signal, thrown), None, None, 0
                if f is None:
                    return False
            instructions = f.info.instructions
            while True:
                handler, operand, f.ip = instructions[f.ip]
                signal = handler(f, operand)
                if signal is not None:
                    if type(signal) is not Frame:
                        break
                    f = signal
                    instructions = f.info.instructions
        except BaseException as exc:
            if isinstance(signal, BaseException):  # own: this is the exception being unwound
                failures += 1
                if failures > 3:  # not a signal handler that came in between: don't try for ever
                    raise
            signal = exc


def evaluate_for(
    frame: Frame, ticks: Iterator[int], stop: Callable[[Frame], BaseException]
) -> bool:
    """As `evaluate`, for a trace: each instruction takes one of the `ticks`.

    When there are no more, the exception that `stop` makes of the innermost frame is raised in the
    place of the next instruction. Not one function with the other: where CPython 3.13 looks for
    signals, the counting loop does not keep the count of recursion exact.
    """
    f: Any = frame
    signal: Any = frame.thrown
    thrown, frame.thrown = signal, None
    failures = 0
    while True:
        try:
            if signal is EXIT:
                return True
            if signal is not None:
                f, signal, thrown, failures = unwind(f, signal, thrown), None, None, 0
                if f is None:
                    return False
            instructions = f.info.instructions
            for _ in ticks:
                handler, operand, f.ip = instructions[f.ip]
                signal = handler(f, operand)
                if signal is not None:
                    if type(signal) is not Frame:
                        break
                    f = signal
                    instructions = f.info.instructions
            else:
                raise stop(f)
        except BaseException as exc:
            if isinstance(signal, BaseException):  # own: this is the exception being unwound
                failures += 1
                if failures > 3:
                    raise
            signal = exc


def unwind(
    f: Any, raised: BaseException | Signal, thrown: BaseException | None = None
) -> Frame | None:
    """Find the handler of an exception, ending frames on the way.

    `thrown` is what the program itself has thrown into the base frame, a generator's.

    As `exception_unwind` in Python/ceval.c: a frame goes into the traceback of an exception that is
    raised in it or comes out of a call, but not of one that it raises again (RERAISE). Answers the
    frame that goes on; None when the base frame is left, the exception being its result then.
    """
    exc: Any
    again = raised is RERAISE
    if again:
        exc, raised_at = f.result
        f.result = None
    else:
        exc = raised
        base = f
        while f is not None and f.finished:
            base, f = f, f.caller
        if f is None:
            base.result = exc
            return None
        raised_at = f.info.unit(f.ip - 1)
        if is_subtype(type(exc), Abort):
            exc.at(f)
        elif not is_user_error(exc):
            exc = f.ops.failed(f, exc)
        elif exc is not thrown:
            exc = f.ops.raised(f, exc) if was_raised(exc) else f.ops.outside(f, exc)
    catchable = type(exc) is not InternalError and not is_subtype(type(exc), Abort)
    while True:
        if not again:
            f.here(exc, raised_at)
        handler = f.info.handler(f.ip - 1)
        if handler is not None and catchable:
            f.truncate(handler.depth)
            if handler.lasti:
                f.stack.append(Lasti(raised_at))
            f.stack.append(exc)
            f.ip = handler.target
            return f  # type: ignore[no-any-return]
        f.truncate(0)
        f.ip = raised_at + 1
        f.finish()
        caller = f.caller
        if caller is None:
            f.result = exc
            return None
        f = caller
        raised_at = f.info.unit(f.ip - 1)
        again = False
