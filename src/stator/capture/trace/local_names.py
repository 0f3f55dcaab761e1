"""The dict that `locals()` answers in a function.

Until Python 3.12 there is one for each call: what the program has put into it is still there when
it asks again. A continuation is another call, with a dict of its own.

In: a frame at which the trace ends. Out: whether the program could tell.
"""

import sys
from typing import Final

from stator._native._core import Frame
from stator.bytecode import decode

_OPTIMIZED: Final = 0x1  # a function: not a class body, not a module


def keeps_names(frame: Frame | None) -> bool:
    """Whether the frame, or one that waits for it, has such a dict: held, or with other names."""
    while frame is not None:
        if frame.code.co_flags & _OPTIMIZED:
            names = frame.namespace
            # What lies on the stack lies on that of the continuation, the dict itself.
            held = sum(each is names for each in frame.stack)
            if type(names) is dict and (
                sys.getrefcount(names) > _ALONE + held
                or not dict.keys(names) <= set(decode(frame.code).localsplus)
            ):
                return True
            names = None
        frame = frame.caller
    return False


_ALONE: Final = 3  # the frame, a variable here, and an argument
