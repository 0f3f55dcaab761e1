"""Generators that a program gives up behind a split.

In: a frame at which the trace ends, and generators that would clean up if they were closed. Out:
whether the program may give one up later on: `del it`, another value for the variable, a cycle that
only the garbage collector finds. A continuation holds what it is given as long as it runs, so that
the `finally` blocks would run too late: then the frame runs as it is.
"""

import gc
import types
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stator._native._core import Frame
from stator.bytecode import decode
from stator.bytecode.arguments import replaced
from stator.capture.objects.reachable import parts, variables
from stator.world.kinds import CONSTANTS

_MOST: Final = 5_000  # objects that are looked at


def given_up_later(frame: Frame | None, generators: Sequence[Any], world: Iterable[Any]) -> bool:
    """Whether one of them may die while the program runs on from here."""
    wanted = set(map(id, generators))
    known = list(world)
    while frame is not None:
        known += frame.stack
        for index, value in variables(frame):
            inside = value
            if type(value) is types.CellType:
                try:
                    inside = value.cell_contents
                except ValueError:
                    continue
            if id(inside) in wanted and _is_replaced(frame, index):
                return True
            known.append(inside)
        frame = frame.caller
    return _is_loose(known, wanted)


def _of_generator(generator: Any) -> list[Any]:
    """What its own variables hold: it runs in a frame of the evaluator."""
    frames = (each for each in gc.get_referents(generator) if type(each) is Frame)
    return [value for frame in frames for _, value in variables(frame)]


def _is_replaced(frame: Frame, index: int) -> bool:
    """Whether code that the frame may come to puts something else into a variable."""
    decoded = decode(frame.code)
    now = frame.ip - 1
    loops = (
        each.target for each in decoded.instructions if each.target is not None and each.unit > now
    )
    first = min((target for target in loops if target <= now), default=now + 1)
    return any(each.unit >= first and index in replaced(each) for each in decoded.instructions)


def _is_loose(known: list[Any], wanted: set[int]) -> bool:
    """Whether nothing known leads to one of them, or what does leads to itself, too."""
    waiting, parents, alive = list(known), dict[int, list[int]](), list[Any]()
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        value = waiting.pop()
        if id(value) in seen or CONSTANTS.holds(type(value)):
            continue
        seen.add(id(value))
        alive.append(value)
        for part in _of_generator(value) if id(value) in wanted else parts(value):
            parents.setdefault(id(part), []).append(id(value))
            waiting.append(part)
    if not waiting and not wanted <= seen:
        return True
    above, rising = set[int](), [each for one in wanted for each in parents.get(one, ())]
    while rising:
        one = rising.pop()
        if one not in above:
            above.add(one)
            rising += parents.get(one, ())
    left = {one: {each for each in parents.get(one, ()) if each in above} for one in above}
    while True:  # what nothing of the rest refers to is in no cycle
        ends = [one for one, others in left.items() if not others]
        if not ends:
            return bool(left)
        for one in ends:
            del left[one]
        for others in left.values():
            others.difference_update(ends)
