"""Where an exception passed on its way out of the traced program.

In: the exception. Out: the lines of its traceback, as data, for the function that raises it again.
"""

from typing import Final, NamedTuple

from stator.evaluator import PACKAGE

_traceback: Final = BaseException.__dict__["__traceback__"].__get__


class Entry(NamedTuple):
    """One line of a traceback."""

    file: str
    line: int
    name: str
    qualname: str


def entries(exception: BaseException) -> tuple[Entry, ...]:
    """The frames of a traceback, without stator's own."""
    found = []
    step = _traceback(exception)
    while step is not None:
        code = step.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found.append(Entry(code.co_filename, step.tb_lineno, code.co_name, code.co_qualname))
        step = step.tb_next
    return tuple(found)
