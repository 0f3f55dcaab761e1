"""Exceptions that are not the program's doing: what a signal handler raises wherever it is called,
and what torch raises when it fails to reason about a program.

In: an exception that a graph or a trace has raised. Out: whether it has come from outside, as
Ctrl-C does and an alarm whose handler raises (then the program is to be left, and nothing may be
tried again); whether torch's symbols and fake tensors have failed (then the program can go on
without them).
"""

import os
from types import FrameType, TracebackType
from typing import Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator._native._core import frame_arguments
from stator.evaluator import InternalError

_TORCH: Final = os.path.dirname(torch.__file__) + os.sep
# Parts of torch that no eager program runs through; what they raise is about symbols and graphs.
_REASONING: Final = (
    *(
        os.path.join(_TORCH, *part.split("/"), "")
        for part in ("fx", "utils/_sympy", "_subclasses", "_refs", "_prims", "_decomp", "_inductor")
    ),
    os.path.dirname(sympy.__file__) + os.sep,
)
_DEEPEST: Final = 20  # causes of causes that are looked at
_OWN: Final = ("torch.fx.", "torch.utils._sympy.", "torch._subclasses.", "sympy.")


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception was raised by something that has interrupted what ran.

    CPython calls a signal handler with the frame that it interrupts, which is the one that called
    it, as far as a traceback knows.
    """
    if not isinstance(error, Exception) or interrupt_behind(error) is not None:
        return True
    step = error.__traceback__
    while step is not None:
        following: TracebackType | None = step.tb_next
        if following is not None and _was_given(following.tb_frame, step.tb_frame):
            return True
        step = following
    return False


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Ctrl-C that has become the cause of something else, if it has.

    CPython itself wraps what is raised in some places (`__set_name__`, results of C functions), as
    modules do while they are imported. What is merely being handled meanwhile is no cause.
    """
    step: BaseException | None = error
    for _ in range(_DEEPEST):
        if step is None or isinstance(step, KeyboardInterrupt):
            return step
        step = step.__cause__
    return None


def is_failure(error: BaseException) -> bool:
    """Whether torch has raised, or sympy, where only a trace would ask them.

    By the class, if it is one of theirs, or by the innermost frame: torch's operators raise the
    same kinds of exceptions, which may be the program's.
    """
    kind = type(error)
    if kind is InternalError:
        return True
    if not isinstance(error, Exception) or kind in (RecursionError, MemoryError):
        return False
    module = kind.__dict__.get("__module__")
    if type(module) is str and module.startswith(_OWN):
        return True
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_filename.startswith(_REASONING)


def _was_given(frame: FrameType, wanted: FrameType) -> bool:
    """Whether a function has got a frame as an argument."""
    return any(
        value is wanted or (type(value) is tuple and any(each is wanted for each in value))
        for value in frame_arguments(frame)
    )
