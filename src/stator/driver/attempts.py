"""Entries whose graph may turn out to be wrong for the values it gets.

Stage: driver. In: a residual function whose graph raises `Refused` when a check of it fails, with
everything as it was before. Out: the target of an entry that calls, in such a case, what takes less
for granted: first what is split where it was wrong, in the end what takes nothing for granted.

A graph is run for nothing at most twice. If it is right most of the time, its checks alone are made
before it from then on, where these are little work. Otherwise it is not tried again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final

from stator._native._core import CompiledFunction
from stator.driver.announcements import Instead
from stator.driver.fallback import hide_frame, is_bound_as_given, unbinding
from stator.driver.tally import Why
from stator.graph.passes.retry import Question, Refused

_PATIENCE: Final = 2
_RARELY: Final = 16  # a graph that is wrong once in so many calls is worth a question


@dataclass(frozen=True)
class Second:
    """What takes less for granted."""

    make: Callable[[FunctionType], CompiledFunction]
    """Made anew each time: what it would be kept by is the function itself."""
    varied: Callable[[object], None]
    """Notes an instruction at which something is otherwise."""
    hopeless: Callable[[], bool]
    """Whether it is known that it captures nothing, and raises instead."""


class Patience:
    """How often the graph of an entry was right, and what that means for the next call."""

    __slots__ = ("_question", "_ran", "_wrong", "calls", "spent")

    def __init__(self, question: Question | None) -> None:
        self._question = question
        self._wrong = self._ran = 0
        self.calls = 0
        self.spent = False
        """The graph is not tried any more."""

    def refused(self, *, ran: bool) -> None:
        """A check has failed; the graph `ran` for nothing, or was not run."""
        self._wrong += 1
        self._ran += ran
        if self._wrong < _PATIENCE:
            return
        question = self._question
        asks = question is not None or not self._ran
        often = self._wrong * _RARELY > self.calls or self._ran > _PATIENCE
        self.spent = often or not asks
        if self._ran >= _PATIENCE and question is not None:
            question.first = True


def attempting(
    residual: Callable[..., Any],
    code: CodeType,
    second: Second | None,
    instead: Instead,
    question: Question | None,
    *,
    fetches: bool,
    tails: bool,
) -> Callable[..., Any]:
    """Calls the residual function or, if its graph refuses, the second one, or the original.

    `instead` is told if so. The last value fetched is the function that is called. The entry tails.
    Where the program insists on what is not so, or the graph takes nothing for granted, it raises
    most likely.
    """
    direct = is_bound_as_given(code)
    call_bound = unbinding(code)
    patience = Patience(question)

    def call(fetched: tuple[Any, ...], *bound: Any) -> Any:
        try:
            if second is None or not patience.spent or second.hopeless():
                patience.calls += 1
                try:
                    result = residual(fetched[:-1], *bound) if fetches else residual(*bound)
                    return result if tails else (None, result)
                except Refused as refused:
                    place, ran = refused.place, refused.ran
                if second is None or place is None:
                    instead.ran_eagerly(Why.REFUSED)
                    return None, call_bound(fetched[-1:], *bound)
                patience.refused(ran=ran)
                second.varied(place)
            instead.passed_on()
            other = second.make(fetched[-1])
            return (other, *bound) if direct else (None, call_bound((other,), *bound))
        except BaseException as error:
            hide_frame(error)
            raise

    return call


def at_most(
    count: int, call: Callable[..., Any], error: Exception, told: Callable[[], None]
) -> Callable[..., Any]:
    """Calls a function until it has returned so often; from then on, raises the error."""
    returned = 0

    def limited(fetched: tuple[Any, ...], *bound: Any) -> Any:
        nonlocal returned
        try:
            if returned >= count:
                raise error.with_traceback(None)
            result = call(fetched, *bound)
        except BaseException as raised:
            hide_frame(raised)
            raise
        returned += 1
        told()
        return result

    return limited
