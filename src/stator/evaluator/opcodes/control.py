"""Jumps, loops and returns."""

from typing import Any

from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import constant
from stator.evaluator.registry import EXIT, Signal, opcode, target


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", operand=target)
def jump(f: Frame, unit: int) -> None:
    f.ip = unit


@opcode(
    "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_FALSE",
    operand=target,
)
def pop_jump_if_false(f: Frame, unit: int) -> None:
    value = f.stack.pop()
    if value is False or (value is not True and not f.ops.truth(f, value)):
        f.ip = unit


@opcode(
    "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_TRUE",
    operand=target,
)
def pop_jump_if_true(f: Frame, unit: int) -> None:
    value = f.stack.pop()
    if value is True or (value is not False and f.ops.truth(f, value)):
        f.ip = unit


@opcode(
    "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NONE",
    operand=target,
)
def pop_jump_if_none(f: Frame, unit: int) -> None:
    if f.stack.pop() is None:
        f.ip = unit


@opcode(
    "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE",
    operand=target,
)
def pop_jump_if_not_none(f: Frame, unit: int) -> None:
    if f.stack.pop() is not None:
        f.ip = unit


@opcode("JUMP_IF_FALSE_OR_POP", operand=target)
def jump_if_false_or_pop(f: Frame, unit: int) -> None:
    """3.11"""
    if f.ops.truth(f, f.stack[-1]):
        f.stack.pop()
    else:
        f.ip = unit


@opcode("JUMP_IF_TRUE_OR_POP", operand=target)
def jump_if_true_or_pop(f: Frame, unit: int) -> None:
    """3.11"""
    if f.ops.truth(f, f.stack[-1]):
        f.ip = unit
    else:
        f.stack.pop()


# ---- loops


@opcode("GET_ITER")
def get_iter(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.iter(f, f.stack[-1])


def _exhausted(decoded: Decoded, instruction: Instruction) -> int:
    """Where FOR_ITER goes when the iterator is exhausted: behind END_FOR and the like."""
    return target(decoded, instruction) + TABLES.for_iter_skip


@opcode("FOR_ITER", operand=_exhausted)
def for_iter(f: Frame, unit: int) -> None:
    stack = f.stack
    item = f.ops.next(f, stack[-1])
    if item is NULL:
        stack.pop()
        f.ip = unit
    else:
        stack.append(item)


# ---- returns


@opcode("RETURN_VALUE")
def return_value(f: Frame, _: Any) -> Frame | Signal:
    return _leave(f, f.stack.pop())


@opcode("RETURN_CONST", operand=constant)
def return_const(f: Frame, value: Any) -> Frame | Signal:
    """3.12+"""
    return _leave(f, value)


def _leave(f: Frame, value: Any) -> Frame | Signal:
    f.finish()
    caller = f.caller
    if caller is None:
        f.result = value
        return EXIT
    caller.stack.append(value)
    return caller
