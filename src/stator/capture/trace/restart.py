"""Splitting a program where it can't be captured.

In: a call. Out: a trace of all of it, or of its beginning, which ends before the instruction that
can't be captured and says how the program goes on (`Suspension`). Such an instruction may have
begun to change what the trace made, so the call is traced again from the start, up to it.
"""

from collections.abc import Iterator
from typing import Final

from stator.capture.trace.task import Task, Trace
from stator.capture.trace.trace import trace

_ATTEMPTS: Final = 20
_NEAR: Final = 8
_DEEPEST: Final = 200


def split(task: Task, first: Trace) -> Trace | None:
    """A trace of the part before what the first trace could not capture.

    None if there is no such part. If the program can't be interrupted there, for it holds something
    that no other code can make (a generator that has begun), the trace ends earlier, as late as
    possible: then that is made natively.
    """
    assert first.broken is not None
    last = trace(task, first.steps)
    _check(first, last)
    if last.suspension is not None:
        # A recursion that breaks at every level would make continuations of ever more frames.
        deep = len(last.suspension.way.points) > _DEEPEST
        return None if deep else last
    if last.broken is not None and last.broken.whole:
        return None
    found = None
    for step in _earlier(last.steps, first.before if last.before is None else last.before):
        attempt = trace(task, step.at)
        step.works = attempt.suspension is not None
        step.unfit = attempt.unfit
        step.before = attempt.before
        if step.works:
            found = attempt
    return found


class _Try:
    """One attempt: the step to end before, and what has come of that."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.works = False
        self.unfit = False  # the instruction there is none to run natively
        self.before: int | None = None  # where that was made which is in the way, if it is known


def _earlier(high: int, made: int | None) -> Iterator[_Try]:
    """Where it was made, once that is known; else by bisection."""
    low = 0
    for _ in range(_ATTEMPTS):
        if high - low <= 1:
            return
        middle = made if made is not None and low < made < high else (low + high) // 2
        # Not every instruction can be carried out on its own; most of those before it can.
        for at in range(middle, max(low, middle - _NEAR), -1):
            step = _Try(at)
            yield step
            if step.works or not step.unfit:
                break
        if step.works and middle == made:
            return
        if step.works:
            low = step.at
        else:
            high = middle
        made = step.before


def _check(first: Trace, second: Trace) -> None:
    """The second trace must have seen what the first one saw."""
    count = len(second.operators)
    if first.operators[:count] != second.operators:
        raise ReplayError("the same call was traced twice, and other operators were recorded")


class ReplayError(RuntimeError):
    """A program did not do the same when it was traced again."""
