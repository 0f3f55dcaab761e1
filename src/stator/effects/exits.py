"""Where an exception passed on its way out of the traced program.

In: the exception. Out: the lines of its traceback, as data, for the function that raises it again.
"""

from typing import Final, NamedTuple

_traceback: Final = BaseException.__dict__["__traceback__"].__get__


class Entry(NamedTuple):
    """One line of a traceback."""

    file: str
    line: int
    name: str
    qualname: str


def entries(exception: BaseException, hidden: str) -> tuple[Entry, ...]:
    """The frames of a traceback, without those of files below the folder `hidden`."""
    found = []
    step = _traceback(exception)
    while step is not None:
        code = step.tb_frame.f_code
        if not code.co_filename.startswith(hidden):
            found.append(Entry(code.co_filename, step.tb_lineno, code.co_name, code.co_qualname))
        step = step.tb_next
    return tuple(found)
