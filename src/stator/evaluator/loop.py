"""The loop: runs frames, one instruction after the other.

In: a base frame, from the native core, which has intercepted it. Out: the frame's `result`, and
whether it is a value (or a yielded value) or an exception. A call of a Python function pushes a
frame and goes on in it; only calls that come back through C code start another loop.
"""

from typing import Any

from stator._native._core import Frame
from stator.evaluator.registry import EXIT, RERAISE, Signal


def evaluate(frame: Frame) -> bool:
    """Run a base frame to its end or suspension: True for a value, False for an exception."""
    f: Frame | None = frame
    signal: Any = frame.thrown
    frame.thrown = None
    while True:
        if signal is EXIT:
            return True
        if signal is not None:
            f = unwind(f, signal)
            signal = None
        if f is None:
            return False
        instructions = f.info.instructions
        try:
            while True:
                handler, operand, f.ip = instructions[f.ip]
                signal = handler(f, operand)
                if signal is not None:
                    if type(signal) is not Frame:
                        break
                    f = signal
                    instructions = f.info.instructions
        except BaseException as exc:
            signal = exc


def unwind(f: Any, raised: BaseException | Signal) -> Frame | None:
    """Find the handler of an exception, ending frames on the way.

    As `exception_unwind` in Python/ceval.c: a frame goes into the traceback of an exception that is
    raised in it or comes out of a call, but not of one that it raises again (RERAISE). Answers the
    frame that goes on; None when the base frame is left, the exception being its result then.
    """
    exc: Any = raised
    raised_at = f.ip - 1
    again = raised is RERAISE
    if again:
        exc, raised_at = f.result
        f.result = None
    while True:
        if not again:
            f.here(exc)
        handler = f.info.decoded.handler_for(f.ip - 1)
        stack = f.stack
        if handler is not None:
            del stack[handler.depth :]
            if handler.lasti:
                stack.append(raised_at)
            stack.append(exc)
            f.ip = handler.target
            return f  # type: ignore[no-any-return]
        stack.clear()
        f.ip = raised_at + 1
        caller = f.caller
        f.finish()
        if caller is None:
            f.result = exc
            return None
        f = caller
        raised_at = f.ip - 1
        again = False
