"""Places in the user's program, and how they are shown.

Stage: diagnostics. In: frames under evaluation. Out: `Place`s, and lines of text about them: the
code at the innermost one, and who called it, with the frames of libraries taken together.
"""

import functools
import linecache
import sysconfig
from collections.abc import Iterator, Sequence
from itertools import islice
from types import CodeType
from typing import Final, NamedTuple

from stator._native._core import Frame
from stator.evaluator import PACKAGE

_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_STANDARD: Final = sysconfig.get_path("stdlib") + "/"
_MOST_CALLERS: Final = 4
_NEVER: Final = 1 << 20
"""A column that no line has: to the end of it."""


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str
    columns: tuple[int, int] | None = None
    """What of the line, in bytes of UTF-8, if that is known."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def place(frame: Frame) -> Place:
    """Where a frame is."""
    whole = line_of(frame)
    return whole._replace(columns=_columns(frame.code, frame.info.unit(frame.ip - 1), whole.line))


def line_of(frame: Frame) -> Place:
    """The same, without columns: to find them takes longer than all the rest."""
    code = frame.code
    return Place(code.co_filename, frame.info.line(code, frame.ip - 1), code.co_qualname)


def _columns(code: CodeType, unit: int, line: int) -> tuple[int, int] | None:
    """Which part of the line an instruction stands for, if the code object knows."""
    for first, last, start, end in islice(code.co_positions(), unit, unit + 1):
        if first != line or start is None or end is None:
            return None
        return (start, end) if last == first else (start, _NEVER)
    return None


def stack(frame: Frame) -> tuple[Place, ...]:
    """A frame and those that called it, the innermost last; without stator's own."""
    return tuple(map(place, _frames(frame)))


def lines(frame: Frame) -> tuple[Place, ...]:
    """The same, without columns."""
    return tuple(map(line_of, _frames(frame)))


def _frames(frame: Frame) -> list[Frame]:
    found = []
    step: Frame | None = frame
    while step is not None:
        if not step.code.co_filename.startswith(PACKAGE):
            found.append(step)
        step = step.caller
    return found[::-1]


# ---------------------------------------------------------------------- showing


def library(place: Place) -> str:
    """The file inside of an installed library that a place is in; empty for the user's own."""
    return _library(place.file)


@functools.lru_cache(1000)
def _library(file: str) -> str:
    for folder in _INSTALLED:
        _, found, rest = file.partition(folder)
        if found:
            return rest
    if file.startswith(_STANDARD):
        return file.removeprefix(_STANDARD)
    return file if file.startswith("<frozen ") else ""


def users_own(places: Sequence[Place]) -> Place:
    """The innermost place that is in no library; the innermost one at all, if all are."""
    for each in reversed(places):
        if not _library(each.file):
            return each
    return places[-1]


def source_line(place: Place) -> str:
    """The text of a line, without its end; empty if the file can't be read."""
    return linecache.getline(place.file, place.line).rstrip()


def code_lines(place: Place) -> Iterator[str]:
    """The line of the program, and marks below the part of it that a place is."""
    text = source_line(place)
    shown = text.strip()
    if not shown:
        return
    yield shown
    if place.columns is None:
        return
    start, end = (len(text.encode()[:column].decode(errors="replace")) for column in place.columns)
    indent = len(text) - len(text.lstrip())
    start, end = max(start - indent, 0), min(end - indent, len(shown))
    # Marks below all of the line would say nothing.
    if 0 < end - start < len(shown):
        yield " " * start + "^" * (end - start)


def shown(places: Sequence[Place]) -> Iterator[str]:
    """Where something happened, in a few lines: the user's line, and what it has led to.

    The code is shown of the user's innermost line and, if it happened in a library that this line
    calls, of the innermost frame. Then who has called it, from the inside to the outside; frames of
    libraries that follow each other are one line.
    """
    if not places:
        return
    own = users_own(places)
    innermost = places[-1]
    yield f"at {_short(own)}"
    yield from (f"    {line}" for line in code_lines(own))
    position = len(places) - 1
    if library(innermost) and own is not innermost:
        position = max(index for index, each in enumerate(places) if each is own)
        between = len(places) - position - 2
        others = f" (through {between} more in libraries)" if between else ""
        yield f"in {_short(innermost)}{others}"
        yield from (f"    {line}" for line in code_lines(innermost))
    groups = _grouped(reversed(places[:position]))
    left_out = len(groups) - _MOST_CALLERS
    for index, group in enumerate(groups):
        # The first ones and the last one; what lies between is seldom of interest.
        if left_out > 0 and _MOST_CALLERS - 1 <= index < len(groups) - 1:
            if index == _MOST_CALLERS - 1:
                yield f"called through {left_out} more"
            continue
        others = f" (and {len(group) - 1} more in libraries)" if len(group) > 1 else ""
        yield f"called from {_short(group[0])}{others}"


def _short(place: Place) -> str:
    return str(place._replace(file=library(place) or place.file))


def _grouped(places: Iterator[Place]) -> list[list[Place]]:
    """Callers; those in libraries that follow each other are taken together."""
    groups: list[list[Place]] = []
    for each in places:
        if groups and library(each) and library(groups[-1][0]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups
