"""Constants and stack moves."""

from typing import Any

from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import common_constant, constant
from stator.evaluator.registry import opcode


@opcode("NOP", "RESUME", "PRECALL", "KW_NAMES", "NOT_TAKEN")
def nop(f: Frame, _: Any) -> None:
    """Nothing to do here. KW_NAMES (3.11, 3.12) is read by the CALL that follows."""


def _common(decoded: Decoded, instruction: Instruction) -> object:
    return common_constant(instruction)


@opcode("LOAD_SMALL_INT")
@opcode("LOAD_COMMON_CONSTANT", operand=_common)
@opcode("LOAD_CONST", operand=constant)
def load_const(f: Frame, value: Any) -> None:
    f.stack.append(value)


@opcode("POP_TOP")
def pop_top(f: Frame, _: Any) -> None:
    f.drop()


@opcode("POP_ITER")
def pop_iter(f: Frame, _: Any) -> None:
    """3.14+: an iterator that a loop is done with."""
    for _ in range(TABLES.iterator_slots):
        f.drop()


@opcode("PUSH_NULL")
def push_null(f: Frame, _: Any) -> None:
    f.stack.append(NULL)


@opcode("COPY")
def copy(f: Frame, depth: int) -> None:
    stack = f.stack
    stack.append(stack[-depth])


@opcode("SWAP")
def swap(f: Frame, depth: int) -> None:
    stack = f.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@opcode("END_FOR", "RETURN_GENERATOR", "EXIT_INIT_CHECK", "INTERPRETER_EXIT", "RESERVED")
def never_reached(f: Frame, _: Any) -> None:
    """FOR_ITER jumps behind END_FOR (3.12+); CPython makes generators and its own trampolines."""
    raise AssertionError("the evaluator never gets here")


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(f: Frame, _: Any) -> None:
    f.stack.append(AssertionError)
