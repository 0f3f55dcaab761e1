"""Tracebacks of exceptions that existed before a trace: what stands for them in it.

In: nothing. Out: a traceback of one entry, which is known by its code. The stand-in of an exception
has it where the exception has its own. What the program adds comes before it, as CPython does that.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"]


def _earlier() -> Iterator[None]:
    yield


_earlier.__code__ = _earlier.__code__.replace(co_filename="<earlier>")
_CODE: Final = _earlier.__code__


def earlier_traceback() -> TracebackType:
    """A new one, of a frame that does not begin."""
    frame = _earlier().gi_frame  # type: ignore[attr-defined]
    return TracebackType(None, frame, 0, 1)


def is_earlier(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code is _CODE
