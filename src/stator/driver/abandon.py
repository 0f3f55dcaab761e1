"""Leaving a program in the middle.

Stage: driver. In: an error of ours (or the user's Ctrl-C) while a continuation is compiled: the
part of the program before it has run. Out: the same error, after the program has been left as by an
exception that it does not handle: `finally` blocks and ends of `with` blocks run, so that locks are
released and torch's modes are what they were.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, NoReturn

from stator.emit.resume import leave
from stator.evaluator.points import Point, size_of


class Abandoned(BaseException):
    """What the program sees. It is no `Exception`: no handler is to take our error for its own."""


def abandon(points: Sequence[Point], bound: tuple[Any, ...], error: BaseException) -> NoReturn:
    """Leaves a program that waits at some points; raises the error in any case."""
    with contextlib.suppress(BaseException):  # also what a `finally` block raises instead
        held = bound[: size_of(points)]
        leave(points, "abandoned")(*held, Abandoned("the rest can't be compiled"))
    raise error
