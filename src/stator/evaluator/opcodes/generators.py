"""Yielding and delegating.

The generator object is CPython's. When C code resumes it inside a window, the native core hands its
frame to the loop; a yield ends the loop and the native core writes the frame back.
"""

from typing import Any

from stator._native._core import NULL, Frame
from stator.bytecode import TABLES
from stator.evaluator.opcodes.control import real_iterator
from stator.evaluator.registry import EXIT, Signal, opcode, target


@opcode("YIELD_VALUE")
def yield_value(f: Frame, arg: int) -> Signal:
    f.result = f.stack.pop()
    f.suspended = arg
    return EXIT


@opcode("SEND", operand=target)
def send(f: Frame, unit: int) -> None:
    stack = f.stack
    if TABLES.iterator_slots == 2 and stack[-2] is not NULL:
        real_iterator(f, len(stack) - 3)  # own: the evaluator's list
    returned, value = f.ops.send(f, stack[-1 - TABLES.iterator_slots], stack[-1])
    stack[-1] = value
    if returned:
        f.ip = unit
        if not SEND_KEEPS_RECEIVER:
            del stack[-2]


@opcode("END_SEND")
def end_send(f: Frame, _: Any) -> None:
    """3.12+"""
    del f.stack[-1 - TABLES.iterator_slots : -1]


SEND_KEEPS_RECEIVER = "END_SEND" in TABLES.opmap
