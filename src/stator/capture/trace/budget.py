"""How long loops of a program are unrolled into one graph.

Stage: capture. In: iterations of loops, as they are traced. Out: a `Break`, once a trace has taken
longer than it may (`config.trace_budget`), at the loop that it is in. Where that was is kept with
the function (`Splits`), and from then on the loop is split there in each iteration: what is behind
is compiled once for all of them, as behind any other break.

What counts is the time of the processor, so that a busy machine captures no less than an idle one.
A `for` loop is split where it takes the next item, the outermost of those that it is in; anything
else that repeats itself (`while`, recursion) at an operator of torch that is met again.
"""

import functools
import time
from types import CodeType
from typing import Any, Final

from stator import config
from stator._native._core import NULL, Frame
from stator.bytecode import Instruction, decode
from stator.diagnostics.catalogue import LoopUnrolled

_At = tuple[int, int]
"""An instruction: the id of its code, since code is slow to hash, and where in it."""
Splits = dict[_At, CodeType]
"""Instructions of loops that took too long to unroll."""

_WITH_FULLGRAPH: Final = 10


class Budget:
    """What is left of it for one trace."""

    def __init__(self, splits: Splits, *, patient: bool = False) -> None:
        """A patient one waits longer, where the alternative is an error."""
        self._splits = splits
        self._seconds = config.trace_budget * (_WITH_FULLGRAPH if patient else 1)
        self._ends = time.thread_time() + self._seconds
        self._not_before = time.monotonic() + self._seconds
        self._loops: dict[_At, int] = {}  # those that run, the outermost first
        self._late: set[_At] = set()  # operators met when it was over

    def iterates(self, frame: Frame) -> None:
        """A loop is to take its next item."""
        key = id(frame.code), int(frame.ip)
        if key in self._splits:
            self._loops.pop(key, None)
            raise self._signal()
        count = self._loops[key] = self._loops.get(key, 0) + 1
        if count > 1 and self._is_over() and self._is_outermost(key):
            self._splits[key] = frame.code
            raise self._signal()

    def ended(self, frame: Frame, item: Any) -> None:
        """It has got one; or there was none, and the loop is over."""
        if item is NULL:
            self._loops.pop((id(frame.code), int(frame.ip)), None)

    def items(self, frame: Frame) -> tuple[int, ...]:
        """How many items the `for` loops have taken that a frame is in, and those that called it.

        Only loops in whose code they are now (others may have been left), and which end with the
        last item: how often they go on does not depend on what the program finds out inside.
        """
        found = []
        step: Frame | None = frame
        while step is not None and not step.finished:
            for start, end in _whole_loops(step.code):
                if start < step.ip <= end:
                    found.append(self._loops.get((id(step.code), start), 0))
            step = step.caller
        return tuple(found)

    def _is_outermost(self, key: _At) -> bool:
        """Of the loops that run and have begun again; those that were left by `break` have not."""
        return next((each for each, count in self._loops.items() if count > 1), key) == key

    def records(self, frame: Frame | None) -> None:
        """An operator of torch is to be recorded."""
        if frame is None or frame.finished:
            return
        if self._splits and (id(frame.code), int(frame.ip)) in self._splits:
            raise self._signal()
        if time.monotonic() > self._not_before and self._is_over():
            key = id(frame.code), int(frame.ip)
            if key in self._late and not self._loops:
                self._splits[key] = frame.code
                raise self._signal()
            self._late.add(key)

    def _is_over(self) -> bool:
        """A processor's time is never more than what has gone by, which is cheaper to ask for."""
        return time.monotonic() > self._not_before and time.thread_time() > self._ends

    def _signal(self) -> LoopUnrolled:
        seconds = "a second" if self._seconds == 1 else f"{self._seconds} seconds"
        return LoopUnrolled(f"a loop is unrolled for more than {seconds}")


@functools.lru_cache(1000)
def _whole_loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Where the bodies of `for` loops begin and end that are never left in the middle."""
    decoded = decode(code)
    return tuple(
        (loop.next, loop.target)
        for loop in decoded.instructions
        if loop.name == "FOR_ITER"
        and loop.target is not None
        and not any(
            _leaves(each, loop)
            for each in decoded.instructions
            if loop.next <= each.unit < loop.target
        )
    )


def _leaves(instruction: Instruction, loop: Instruction) -> bool:
    """Whether an instruction in the body of a loop ends it."""
    if instruction.name.startswith("RETURN_"):
        return instruction.name != "RETURN_GENERATOR"
    target = instruction.target
    return target is not None and loop.target is not None and not loop.start <= target < loop.target
