"""Branches that a program does not expect to take: `assert ok`, `if bad: raise ValueError(…)`.

In: a frame at a jump whose condition is not known. Out: which way goes on, if the other one does
nothing but raise an exception. The trace then follows that way, and the graph checks the condition.
That a branch is taken for one of these is a matter of speed only: if the check fails, the call runs
again without the graph, and raises by itself.

Where the program would handle the exception, or the C code that has called the function would, it
is a way to go on, too: a loop may end by it.
"""

import functools
from types import CodeType
from typing import Final

from stator._native._core import Frame
from stator.bytecode import TABLES, Decoded, decode
from stator.capture.tensors.refused_values import handlers

_FARTHEST: Final = 60  # instructions until the exception is raised
_FORWARD: Final = frozenset({"JUMP_FORWARD"})
_ENDS: Final = ("RETURN", "YIELD", "SEND", "STORE_", "DELETE_", "RERAISE", "FOR_ITER")


def insisted(frame: Frame) -> bool | None:
    """What the condition must be for the program to go on; None if both ways do something."""
    side = _sides(frame.code).get(frame.info.unit(frame.ip - 1))
    return None if side is None or handlers(frame) - {"finally"} else side


@functools.lru_cache(1000)
def _sides(code: CodeType) -> dict[int, bool]:
    """For the unit of a test, the side that does not just raise."""
    decoded = decode(code)
    found: dict[int, bool] = {}
    before = 0
    for each in decoded.instructions:
        if each.name in TABLES.popping_jumps and each.name.endswith(("IF_TRUE", "IF_FALSE")):
            jumps_if = each.name.endswith("IF_TRUE")
            raises = [_raises(decoded, start) for start in (each.target, each.next)]
            if raises[0] != raises[1]:
                side = jumps_if if raises[1] else not jumps_if
                found[each.unit] = side
                if decoded.at(before).name == "TO_BOOL":  # 3.13+: it may ask, and not the jump
                    found[before] = side
        before = each.unit
    return found


def _raises(decoded: Decoded, unit: int | None) -> bool:
    """Whether the code from here does nothing but raise an exception."""
    for _ in range(_FARTHEST):
        if unit is None or unit >= decoded.units:
            return False
        each = decoded.at(unit)
        if each.name == "RAISE_VARARGS":
            return True
        if each.name in _FORWARD:
            unit = each.target
            continue
        if "JUMP" in each.name or each.name.startswith(_ENDS):
            return False
        unit = each.next
    return False
