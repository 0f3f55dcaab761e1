"""Branches that a program does not expect to take: `assert ok`, `if bad: raise ValueError(…)`.

In: a frame at a jump whose condition is not known. Out: which way goes on, if the other one does
nothing but raise an exception. The trace then follows that way, and the graph checks the condition.
That a branch is taken for one of these is a matter of speed only: if the check fails, the call runs
again without the graph, and raises by itself.

Where the program would handle the exception, or the C code that has called the function would, it
is a way to go on, too: a loop may end by it.
"""

import dis
import functools
from types import CodeType
from typing import Final

from stator._native._core import Frame
from stator.capture.handled import handlers

_FARTHEST: Final = 60  # instructions until the exception is raised
_FORWARD: Final = frozenset({"JUMP_FORWARD"})
_ENDS: Final = ("RETURN", "YIELD", "SEND", "STORE_", "DELETE_", "RERAISE", "FOR_ITER")


def insisted(frame: Frame) -> bool | None:
    """What the condition must be for the program to go on; None if both ways do something."""
    side = _sides(frame.code).get(2 * frame.info.unit(frame.ip - 1))
    return None if side is None or handlers(frame) - {"finally"} else side


@functools.lru_cache(1000)
def _sides(code: CodeType) -> dict[int, bool]:
    """For the offset of a test, the side that does not just raise."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    places = {each.offset: place for place, each in enumerate(instructions)}
    found: dict[int, bool] = {}
    for place, each in enumerate(instructions):
        name = each.opname
        if not name.startswith("POP_JUMP") or not name.endswith(("IF_TRUE", "IF_FALSE")):
            continue
        jumps_if = name.endswith("IF_TRUE")
        raises = [
            _raises(instructions, start, places) for start in (places[each.argval], place + 1)
        ]
        if raises[0] != raises[1]:
            side = jumps_if if raises[1] else not jumps_if
            found[each.offset] = side
            if instructions[place - 1].opname == "TO_BOOL":  # 3.13: the test comes first
                found[instructions[place - 1].offset] = side
    return found


def _raises(instructions: list[dis.Instruction], place: int, places: dict[int, int]) -> bool:
    """Whether the code from here does nothing but raise an exception."""
    for _ in range(_FARTHEST):
        if place >= len(instructions):
            return False
        each = instructions[place]
        if each.opname == "RAISE_VARARGS":
            return True
        if each.opname in _FORWARD:
            place = places[each.argval]
            continue
        if "JUMP" in each.opname or each.opname.startswith(_ENDS):
            return False
        place += 1
    return False
