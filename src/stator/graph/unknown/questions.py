"""The rule for sizes and numbers that are not known while tracing.

Such a number is a symbol without a value: only the graph knows it, when it runs. Whatever asks
about one (the program, a fake kernel, torch's own code) asks `Environment.evaluate_expr`, and that
asks here. An answer is one of three:

- *proven*: it follows from what the operators are, or from what is checked already;
- *checked*: it is taken for granted, and the graph checks it before anything that depends on it has
  an effect (`checks`). If the check fails, nothing has happened, and the program itself runs;
- *not used*: whatever the answer, the result is described by the same expressions.

A kernel that has a way of its own for some sizes asks which way to go. Most of these ways lead to
the same sizes, written down as one expression, and then the question need not be checked: an
operation that was asked is run again at *corners*, numbers for which the answer would have been the
other one, as well as 0 and 1 for each size (`corners`). Where that gives something else, the answer
is checked.

| who asks | what is answered | |
|---|---|---|
| a kernel, and says what to do if nobody knows | that | checked if a corner differs |
| a kernel that must know | the usual: not 0, not 1 | checked if a corner differs |
| a kernel that must know whether two sizes are the same | they are | checked |
| the program | what it is in this call (`capture.speculation`) | checked |
| the program, where that can't be seen, or has turned out to vary | nothing: a `Break` | |
| the backend, when it traces the graph | what torch answers, for any number | |
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]


class Asker(enum.Enum):
    """On whose behalf questions are asked."""

    TORCH = enum.auto()
    """torch itself, or the backend: what torch answers is right for any number."""
    KERNEL = enum.auto()
    PROGRAM = enum.auto()


@dataclass(frozen=True)
class Question:
    """Something a kernel wanted to know, and what it was told."""

    condition: Any
    answer: bool

    def told(self) -> Any:
        """The condition that holds if the answer is right."""
        return self.condition if self.answer else sympy.Not(self.condition)


class Questions:
    """Who asks now, and what has been asked on behalf of the operation that runs now."""

    def __init__(self) -> None:
        self.asker = Asker.TORCH
        self.asked: dict[Any, Question] = {}

    @contextmanager
    def by(self, asker: Asker) -> Iterator[None]:
        before, self.asker = self.asker, asker
        if asker is Asker.KERNEL:
            self.asked = {}
        try:
            yield
        finally:
            self.asker = before

    def note(self, condition: Any, answer: bool) -> bool:
        """What a kernel is told."""
        self.asked[condition] = Question(condition, answer)
        return answer


def usual(condition: Any) -> bool | None:
    """What is usual: that a size is neither 0 nor 1. None if nothing is."""
    if not isinstance(condition, sympy.Eq | sympy.Ne):
        return None
    left, right = condition.args
    if isinstance(left, sympy.Integer):
        left, right = right, left
    return isinstance(condition, sympy.Ne) if right in (0, 1) else None


def same_size(condition: Any) -> Any:
    """The condition that two unknown sizes are the same, if that is what is asked; or None."""
    if not isinstance(condition, sympy.Eq | sympy.Ne):
        return None
    left, right = condition.args
    return None if left.is_number or right.is_number else sympy.Eq(left, right)
