"""Operators, attributes and items."""

from typing import Any, Final

from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import loads_method, name
from stator.bytecode.tables import SUBSCRIPTION
from stator.evaluator.registry import Handler, opcode, select

_TESTS: Final = frozenset({"POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"})

# ---- unary


@opcode("UNARY_NEGATIVE")
def unary_negative(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.negative(f, f.stack[-1])


@opcode("UNARY_POSITIVE")
def unary_positive(f: Frame, _: Any) -> None:
    """3.11; an intrinsic later."""
    f.stack[-1] = f.ops.positive(f, f.stack[-1])


@opcode("UNARY_INVERT")
def unary_invert(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.invert(f, f.stack[-1])


@opcode("UNARY_NOT")
def unary_not(f: Frame, _: Any) -> None:
    f.stack[-1] = not f.ops.truth(f, f.stack[-1])


def to_bool(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.truth(f, f.stack[-1])


def to_bool_for_jump(f: Frame, _: Any) -> None:
    f.stack[-1] = f.ops.tested(f, f.stack[-1])


@select("TO_BOOL")
def select_to_bool(decoded: Decoded, instruction: Instruction) -> tuple[Handler, None]:
    """3.13+"""
    return (to_bool_for_jump if _jump_asks(decoded, instruction) else to_bool), None


def _jump_asks(decoded: Decoded, instruction: Instruction) -> bool:
    """Whether the jump behind may ask for the truth: nobody can tell one from the other.

    A test is one step of a trace then, as before 3.13, and what was compared is not compared again
    where a program goes on behind a jump that depends on values.
    """
    unit, behind = instruction.unit, instruction.next
    return (
        decoded.at(behind).name in _TESTS
        and decoded.handler_for(unit) == decoded.handler_for(behind)
        and decoded.positions_of(unit) == decoded.positions_of(behind)
    )


# ---- binary


def binary_op(f: Frame, op: int) -> None:
    stack = f.stack
    right = stack.pop()
    stack[-1] = f.ops.binary(f, op, stack[-1], right)


def binary_op_last_first(f: Frame, op: int) -> None:
    """3.14+"""
    stack = f.stack
    right = stack.pop()
    result = f.ops.binary(f, op, stack[-1], right)
    del right
    stack[-1] = result


BINARY_OP: Handler = binary_op_last_first if TABLES.last_dies_first else binary_op


@select("BINARY_OP")
def select_binary(decoded: Decoded, instruction: Instruction) -> tuple[Handler, int]:
    """3.14+ takes items with it, too."""
    handler = binary_subscr if instruction.arg == SUBSCRIPTION else BINARY_OP
    return handler, instruction.arg


def compare(f: Frame, op: int) -> None:
    stack = f.stack
    right = stack.pop()
    result = f.ops.compare(f, op, stack[-1], right)
    if TABLES.last_dies_first:
        del right
    stack[-1] = result


def compare_to_bool(f: Frame, op: int) -> None:
    compare(f, op)
    f.stack[-1] = f.ops.truth(f, f.stack[-1])


def compare_for_jump(f: Frame, op: int) -> None:
    compare(f, op)
    f.stack[-1] = f.ops.tested(f, f.stack[-1])


@select("COMPARE_OP")
def select_compare(decoded: Decoded, instruction: Instruction) -> tuple[Handler, int]:
    arg = instruction.arg
    handler: Handler = compare
    if arg & TABLES.compare_to_bool:
        handler = compare_for_jump if _jump_asks(decoded, instruction) else compare_to_bool
    return handler, arg >> TABLES.compare_shift


@opcode("IS_OP")
def is_op(f: Frame, negated: int) -> None:
    stack = f.stack
    right = stack.pop()
    left = stack[-1]
    stack[-1] = (left is right or f.ops.identical(f, left, right)) is not (negated == 1)


@opcode("CONTAINS_OP")
def contains_op(f: Frame, negated: int) -> None:
    stack = f.stack
    container = stack.pop()
    found = f.ops.contains(f, container, stack[-1])
    stack[-1] = not found if negated else found


# ---- attributes


def load_attr(f: Frame, attribute: str) -> None:
    stack = f.stack
    stack[-1] = f.ops.getattr(f, stack[-1], attribute)


def load_method_null_first(f: Frame, attribute: str) -> None:
    """For a call: the bound method and NULL do as well as the function and self."""
    stack = f.stack
    value = f.ops.getattr(f, stack[-1], attribute)
    stack[-1] = NULL
    stack.append(value)


def load_method_null_last(f: Frame, attribute: str) -> None:
    stack = f.stack
    stack[-1] = f.ops.getattr(f, stack[-1], attribute)
    stack.append(NULL)


LOAD_METHOD: Handler = load_method_null_first if TABLES.null_first else load_method_null_last


@select("LOAD_ATTR", "LOAD_METHOD")
def select_load_attr(decoded: Decoded, instruction: Instruction) -> tuple[Handler, str]:
    """LOAD_METHOD is an opcode on 3.11, the low bit of LOAD_ATTR's argument later."""
    as_method = loads_method(instruction)
    return (LOAD_METHOD if as_method else load_attr), name(decoded, instruction)


@opcode("STORE_ATTR", operand=name)
def store_attr(f: Frame, attribute: str) -> None:
    stack = f.stack
    owner = stack.pop()
    f.ops.setattr(f, owner, attribute, stack.pop())


@opcode("DELETE_ATTR", operand=name)
def delete_attr(f: Frame, attribute: str) -> None:
    f.ops.delattr(f, f.stack.pop(), attribute)


# ---- items

_SLICE: Final = slice  # its own name: a program may replace that of the built-in module


@opcode("BINARY_SUBSCR")
def binary_subscr(f: Frame, _: Any) -> None:
    stack = f.stack
    key = stack.pop()
    stack[-1] = f.ops.getitem(f, stack[-1], key)


@opcode("STORE_SUBSCR")
def store_subscr(f: Frame, _: Any) -> None:
    stack = f.stack
    key = stack.pop()
    container = stack.pop()
    f.ops.setitem(f, container, key, stack.pop())


@opcode("DELETE_SUBSCR")
def delete_subscr(f: Frame, _: Any) -> None:
    stack = f.stack
    key = stack.pop()
    f.ops.delitem(f, stack.pop(), key)


@opcode("BINARY_SLICE")
def binary_slice(f: Frame, _: Any) -> None:
    """3.12+"""
    stack = f.stack
    stop = stack.pop()
    start = stack.pop()
    stack[-1] = f.ops.getitem(f, stack[-1], _SLICE(start, stop))


@opcode("STORE_SLICE")
def store_slice(f: Frame, _: Any) -> None:
    """3.12+"""
    stack = f.stack
    stop = stack.pop()
    start = stack.pop()
    container = stack.pop()
    f.ops.setitem(f, container, _SLICE(start, stop), stack.pop())
