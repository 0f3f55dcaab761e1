"""Where an exception passed on its way out of the traced program.

In: the exception. Out: the lines of its traceback, as data, for the function that raises it again;
and what stands for the traceback that it had before, or that it was given.
"""

import itertools
from types import CodeType, TracebackType
from typing import NamedTuple, cast

from stator.evaluator import PACKAGE
from stator.objects.tracebacks import TRACEBACK, is_earlier


class Entry(NamedTuple):
    """One line of a traceback."""

    file: str
    line: int
    name: str
    qualname: str
    columns: tuple[int, int, int] | None = None
    """The last line, and from which column to which; None if they are not known."""


def entry(code: CodeType, line: int, unit: int) -> Entry:
    """An instruction of a function, as a traceback shows it."""
    first, *columns = next(itertools.islice(code.co_positions(), unit, None), (None,) * 4)
    known = first == line and None not in columns
    return Entry(
        code.co_filename,
        line,
        code.co_name,
        code.co_qualname,
        cast(tuple[int, int, int], tuple(columns)) if known else None,
    )


def entries(exception: BaseException) -> tuple[Entry, ...]:
    """The frames of a traceback that are of the traced call, without stator's own."""
    found = []
    step = TRACEBACK.__get__(exception)
    while step is not None and not is_earlier(step):
        code = step.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found.append(entry(code, step.tb_lineno, step.tb_lasti // 2))
        step = step.tb_next
    return tuple(found)


def earlier(exception: BaseException) -> TracebackType | None:
    """The stand-in of a traceback with which the exception's own ends."""
    step: TracebackType | None = TRACEBACK.__get__(exception)
    while step is not None and not is_earlier(step):
        step = step.tb_next
    return step
