"""Which line of the program is the reason for a guard.

Stage: capture. In: a guard is being made, by the instruction that the evaluator runs. Out: the code
and the unit of the user's innermost frame; of the innermost one at all, if none is the user's.

Nobody keeps a note of the running frame for it: guards are few, instructions are many. The handler
of the instruction has it, and is found on Python's own stack, right above the evaluator's loop. If
that loop was started by C code, the program's frames are below it as they would be without us. No
frame is kept beyond the instruction: generators are closed when nothing refers to them.
"""

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from stator._native._core import Frame, frame_arguments
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
_TRACE: Final = str(Path(__file__).with_name("trace.py"))


def blame() -> Blamed:
    """The line that is the reason for what the caller's caller does."""
    handler: Any = sys._getframe(2)
    innermost = _NOBODY
    while (loop := handler.f_back) is not None and loop.f_code.co_filename != _TRACE:
        if _users[loop.f_code.co_filename]:
            return loop.f_code, loop.f_lasti // 2  # C code that it calls has called back
        if loop.f_code is _NESTED or loop.f_code is _OUTERMOST:
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
        handler = loop
    return innermost


def surrounding() -> list[FrameType]:
    """The program's frames that wait for C code, which has started others: the innermost first."""
    found = []
    frame = sys._getframe(1)
    while (below := frame.f_back) is not None and below.f_code.co_filename != _TRACE:
        frame = below
        if not frame.f_code.co_filename.startswith(PACKAGE):
            found.append(frame)
    return found


def _running(handler: Any) -> Frame | None:
    """The frame whose instruction a handler carries out: its first parameter."""
    given = frame_arguments(handler)  # not `f_locals`: that is a dict of all it has
    return given[0] if given and type(given[0]) is Frame else None
