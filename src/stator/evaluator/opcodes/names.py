"""Variables: fast locals, cells, globals, and the namespaces of modules and class bodies."""

from types import CellType
from typing import Any

from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import name, name_flag, pair
from stator.evaluator.registry import Handler, opcode, select

# ---- fast locals


@opcode("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(f: Frame, index: int) -> None:
    value = f[index]
    if value is NULL:
        value = f.ops.pending(f, index)
        if value is NULL:
            f.unbound(index)
        f[index] = value
    f.stack.append(value)


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(f: Frame, index: int) -> None:
    """Save a variable that an inlined comprehension hides (3.12+); it may be unbound."""
    value, pending = f[index], f.ops.pending(f, index)
    f.stack.append(pending if value is NULL else value)
    f[index] = NULL


@opcode("STORE_FAST")
def store_fast(f: Frame, index: int) -> None:
    f[index] = f.stack.pop()


@opcode("DELETE_FAST")
def delete_fast(f: Frame, index: int) -> None:
    pending = f.ops.pending(f, index)
    if f[index] is NULL and pending is NULL:
        f.unbound(index)
    f[index] = NULL


def _pair(decoded: Decoded, instruction: Instruction) -> tuple[int, int]:
    return pair(instruction)


@opcode("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", operand=_pair)
def load_fast_load_fast(f: Frame, indices: tuple[int, int]) -> None:
    """3.13+"""
    load_fast(f, indices[0])
    load_fast(f, indices[1])


@opcode("STORE_FAST_LOAD_FAST", operand=_pair)
def store_fast_load_fast(f: Frame, indices: tuple[int, int]) -> None:
    """3.13+"""
    f[indices[0]] = f.stack.pop()
    load_fast(f, indices[1])


@opcode("STORE_FAST_STORE_FAST", operand=_pair)
def store_fast_store_fast(f: Frame, indices: tuple[int, int]) -> None:
    """3.13+"""
    f[indices[0]] = f.stack.pop()
    f[indices[1]] = f.stack.pop()


# ---- cells


@opcode("MAKE_CELL")
def make_cell(f: Frame, index: int) -> None:
    value = f[index]
    f[index] = CellType() if value is NULL else CellType(value)


@opcode("COPY_FREE_VARS")
def copy_free_vars(f: Frame, _: int) -> None:
    f.copy_free_vars()


@opcode("LOAD_DEREF")
def load_deref(f: Frame, index: int) -> None:
    value = f.ops.load_cell(f, f[index])
    if value is NULL:
        f.unbound(index)
    f.stack.append(value)


@opcode("STORE_DEREF")
def store_deref(f: Frame, index: int) -> None:
    f.ops.store_cell(f, f[index], f.stack.pop())


@opcode("DELETE_DEREF")
def delete_deref(f: Frame, index: int) -> None:
    cell = f[index]
    if f.ops.load_cell(f, cell) is NULL:
        f.unbound(index)
    f.ops.store_cell(f, cell, NULL)


def _cell_and_name(decoded: Decoded, instruction: Instruction) -> tuple[int, str]:
    return instruction.arg, decoded.localsplus[instruction.arg]


@opcode("LOAD_CLASSDEREF", operand=_cell_and_name)
def load_classderef(f: Frame, variable: tuple[int, str]) -> None:
    """3.11: a free variable of a class body, which the class namespace may hide."""
    index, variable_name = variable
    value = f.ops.lookup_name(f, f.namespace, variable_name)
    if value is NULL:
        load_deref(f, index)
    else:
        f.stack.append(value)


@opcode("LOAD_FROM_DICT_OR_DEREF", operand=_cell_and_name)
def load_from_dict_or_deref(f: Frame, variable: tuple[int, str]) -> None:
    """3.12+: as LOAD_CLASSDEREF, with the namespace on the stack."""
    index, variable_name = variable
    value = f.ops.lookup_name(f, f.stack.pop(), variable_name)
    if value is NULL:
        load_deref(f, index)
    else:
        f.stack.append(value)


# ---- globals


def load_global(f: Frame, variable: str) -> None:
    f.stack.append(f.ops.load_global(f, variable))


def load_global_null_first(f: Frame, variable: str) -> None:
    stack = f.stack
    stack.append(NULL)
    stack.append(f.ops.load_global(f, variable))


def load_global_null_last(f: Frame, variable: str) -> None:
    stack = f.stack
    stack.append(f.ops.load_global(f, variable))
    stack.append(NULL)


@select("LOAD_GLOBAL")
def select_load_global(decoded: Decoded, instruction: Instruction) -> tuple[Handler, str]:
    """With the low bit of the argument set, NULL is pushed too, on the side a call wants it."""
    if not name_flag(instruction):
        handler: Handler = load_global
    elif TABLES.null_first:
        handler = load_global_null_first
    else:
        handler = load_global_null_last
    return handler, name(decoded, instruction)


@opcode("STORE_GLOBAL", operand=name)
def store_global(f: Frame, variable: str) -> None:
    f.ops.store_global(f, variable, f.stack.pop())


@opcode("DELETE_GLOBAL", operand=name)
def delete_global(f: Frame, variable: str) -> None:
    f.ops.delete_global(f, variable)


# ---- the namespace of a module or class body


@opcode("LOAD_NAME", operand=name)
def load_name(f: Frame, variable: str) -> None:
    f.stack.append(f.ops.load_name(f, f.namespace, variable))


@opcode("LOAD_FROM_DICT_OR_GLOBALS", operand=name)
def load_from_dict_or_globals(f: Frame, variable: str) -> None:
    """3.12+"""
    f.stack.append(f.ops.load_name(f, f.stack.pop(), variable))


@opcode("STORE_NAME", operand=name)
def store_name(f: Frame, variable: str) -> None:
    f.ops.store_name(f, variable, f.stack.pop())


@opcode("DELETE_NAME", operand=name)
def delete_name(f: Frame, variable: str) -> None:
    f.ops.delete_name(f, variable)


@opcode("LOAD_LOCALS")
def load_locals(f: Frame, _: Any) -> None:
    """3.12+"""
    f.stack.append(f.namespace)


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(f: Frame, _: Any) -> None:
    if f.ops.lookup_name(f, f.namespace, "__annotations__") is NULL:
        f.ops.store_name(f, "__annotations__", {})
