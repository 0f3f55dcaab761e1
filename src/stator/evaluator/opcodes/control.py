"""Jumps, loops and returns."""

from typing import Any

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import constant
from stator.evaluator.registry import EXIT, Handler, Signal, opcode, select, target
from stator.evaluator.thunks import delegation_thunk
from stator.objects import lookup


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


def get_iter(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.iter(f, f.stack[-1])


def get_iter_and_null(f: Frame, _: Any) -> None:
    """3.15+. CPython leaves lists and the like as they are, with a number: nobody can tell."""
    f.stack[-1] = f.ops.iter(f, f.stack[-1])
    f.stack.append(NULL)


@select("GET_ITER")
def select_get_iter(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Any]:
    """3.15+: with an argument, for `yield from`."""
    if instruction.arg:
        return delegate_to, delegation_thunk(instruction.arg, decoded.code.co_flags)
    return (get_iter if TABLES.iterator_slots == 1 else get_iter_and_null), None


def delegate_to(f: Frame, check: Any) -> None:
    """3.15+: the iterator for `yield from`, which may be a coroutine in a coroutine."""
    value = f.ops.instruction(f, check, f.stack[-1])
    if lookup(type(value), "__next__") is None and lookup(type(value), "__await__") is None:
        value = f.ops.iter(f, value)
    f.stack[-1] = value
    f.stack.append(NULL)


def real_iterator(f: Frame, at: int) -> None:
    """Before a loop goes on that CPython has begun: a list and a number become an iterator.

    Only generators bring such ones, see `Tables.iterator_slots`.
    """
    stack = f.stack
    number = stack[at + 1]
    iterator = f.ops.iter(f, stack[at])
    core.call_native(f, iterator.__setstate__, int(number))  # own: an iterator of C's
    stack[at : at + 2] = [iterator, NULL]


def _exhausted(decoded: Decoded, instruction: Instruction) -> int:
    """Where FOR_ITER goes when the iterator is exhausted: behind END_FOR and the like."""
    return target(decoded, instruction) + TABLES.for_iter_skip


@select("FOR_ITER")
def select_for_iter(decoded: Decoded, instruction: Instruction) -> tuple[Handler, int]:
    handler = for_iter if TABLES.iterator_slots == 1 else for_iter_and_null
    return handler, _exhausted(decoded, instruction)


def for_iter_and_null(f: Frame, unit: int) -> None:
    """3.15+"""
    stack = f.stack
    if stack[-1] is not NULL:
        real_iterator(f, -2 + len(stack))  # own: the evaluator's list
    item = f.ops.next(f, stack[-2])
    if item is NULL:
        del stack[-2:]
        f.ip = unit
    else:
        stack.append(item)


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
