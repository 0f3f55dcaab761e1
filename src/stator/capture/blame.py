"""Which line of the program is the reason for a guard.

Stage: capture. In: a guard is being made, by the instruction that the evaluator runs. Out: the code
and the unit of the user's innermost frame; of the innermost one at all, if none is the user's.

Nobody keeps a note of the running frame for it: guards are few, instructions are many. The handler
of the instruction has it, and is found on Python's own stack, right above the evaluator's loop. If
that loop was started by C code, the program's frames are below it as they would be without us. No
frame is kept beyond the instruction: generators are closed when nothing refers to them.
"""

import sys
from types import CodeType
from typing import Any, Final

from stator._native._core import Frame
from stator.diagnostics.places import Place, library
from stator.evaluator import PACKAGE
from stator.evaluator.loop import evaluate, evaluate_for

Blamed = tuple[CodeType | None, int]
_NOBODY: Final[Blamed] = None, 0


class _Users(dict[str, bool]):
    """Whether a file is neither a library's nor stator's own."""

    def __missing__(self, file: str) -> bool:
        found = self[file] = not file.startswith(PACKAGE) and not library(Place(file, 0, ""))
        return found


_users: Final = _Users()
_NESTED: Final = evaluate.__code__
_OUTERMOST: Final = evaluate_for.__code__


def blame() -> Blamed:
    """The line that is the reason for what the caller's caller does."""
    handler: Any = sys._getframe(2)
    innermost = _NOBODY
    while (loop := handler.f_back) is not None:
        nested = loop.f_code is _NESTED
        if nested or loop.f_code is _OUTERMOST:
            running = _running(handler)
            if running is None:
                break
            if innermost is _NOBODY:
                innermost = running.code, max(running.ip - 1, 0)
            frame: Frame | None = running
            while frame is not None:
                if _users[frame.code.co_filename]:
                    return frame.code, max(frame.ip - 1, 0)
                frame = frame.caller
            found = _below(loop) if nested else None
            if found is not None:
                return found
            if not nested:
                break
        handler = loop  # C code has started this loop: who has called that is further out
    return innermost


def _below(loop: Any) -> Blamed | None:
    """The user's innermost frame below a loop that C code has started."""
    step = loop.f_back.f_back  # past the tracer
    while step is not None and not step.f_code.co_filename.startswith(PACKAGE):
        if _users[step.f_code.co_filename]:
            return step.f_code, step.f_lasti // 2
        step = step.f_back
    return None


def _running(handler: Any) -> Frame | None:
    """The frame whose instruction a handler carries out: its first parameter."""
    frame = handler.f_locals.get(handler.f_code.co_varnames[0])
    return frame if type(frame) is Frame else None
