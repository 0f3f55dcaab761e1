"""Where an exception passed on its way out of the traced program.

In: the exception. Out: the lines of its traceback, as data, for the function that raises it again;
and what stands for the traceback that it had before, or that it was given.
"""

from types import TracebackType
from typing import NamedTuple

from stator.evaluator import PACKAGE
from stator.objects.tracebacks import TRACEBACK, is_earlier


class Entry(NamedTuple):
    """One line of a traceback."""

    file: str
    line: int
    name: str
    qualname: str


def entries(exception: BaseException) -> tuple[Entry, ...]:
    """The frames of a traceback that are of the traced call, without stator's own."""
    found = []
    step = TRACEBACK.__get__(exception)
    while step is not None and not is_earlier(step):
        code = step.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found.append(Entry(code.co_filename, step.tb_lineno, code.co_name, code.co_qualname))
        step = step.tb_next
    return tuple(found)


def earlier(exception: BaseException) -> TracebackType | None:
    """The stand-in of a traceback with which the exception's own ends."""
    step: TracebackType | None = TRACEBACK.__get__(exception)
    while step is not None and not is_earlier(step):
        step = step.tb_next
    return step
