"""Exceptions that are not the program's doing: what a signal handler raises wherever it is called.

In: an exception that a graph has raised. Out: whether it has come from outside, as Ctrl-C does and
an alarm whose handler raises. Then the program is to be left, and nothing may be tried again.
"""

from types import FrameType, TracebackType

from stator._native._core import frame_arguments


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception was raised by something that has interrupted what ran.

    CPython calls a signal handler with the frame that it interrupts, which is the one that called
    it, as far as a traceback knows.
    """
    if not isinstance(error, Exception):
        return True
    step = error.__traceback__
    while step is not None:
        following: TracebackType | None = step.tb_next
        if following is not None and _was_given(following.tb_frame, step.tb_frame):
            return True
        step = following
    return False


def _was_given(frame: FrameType, wanted: FrameType) -> bool:
    """Whether a function has got a frame as an argument."""
    return any(
        value is wanted or (type(value) is tuple and any(each is wanted for each in value))
        for value in frame_arguments(frame)
    )
