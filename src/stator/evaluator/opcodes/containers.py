"""Building containers."""

from types import FunctionType
from typing import Any, Final

from stator._native._core import Frame
from stator.bytecode import TABLES
from stator.evaluator.registry import opcode
from stator.evaluator.thunks import thunk

_SLICE: Final = slice  # its own name: a program may replace that of the built-in module


@opcode("BUILD_TUPLE")
def build_tuple(f: Frame, count: int) -> None:
    stack = f.stack
    if count:
        stack[-count:] = [(*stack[-count:],)]
    else:
        stack.append(())


@opcode("BUILD_LIST")
def build_list(f: Frame, count: int) -> None:
    stack = f.stack
    if count:
        stack[-count:] = [stack[-count:]]
    else:
        stack.append([])


@opcode("BUILD_STRING")
def build_string(f: Frame, count: int) -> None:
    stack = f.stack
    parts = stack[-count:] if count else []
    try:
        text = "".join(parts)
    except TypeError:  # a tracer's stand-ins for text
        text = f.ops.instruction(f, thunk("BUILD_STRING", count, count, 1), *parts)
    if count:
        del stack[-count:]
    stack.append(text)


@opcode("BUILD_SLICE")
def build_slice(f: Frame, count: int) -> None:
    stack = f.stack
    stack[-count:] = [_SLICE(*stack[-count:])]


@opcode("LIST_APPEND")
def list_append(f: Frame, depth: int) -> None:
    stack = f.stack
    item = stack.pop()
    stack[-depth].append(item)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(f: Frame, _: Any) -> None:
    """3.11; an intrinsic later."""
    f.stack[-1] = f.ops.instruction(f, _LIST_TO_TUPLE, f.stack[-1])


def _to_tuple() -> FunctionType:
    if "LIST_TO_TUPLE" in TABLES.opmap:
        return thunk("LIST_TO_TUPLE", 0, 1, 1)
    return thunk("CALL_INTRINSIC_1", TABLES.intrinsics1.index("LIST_TO_TUPLE"), 1, 1)


_LIST_TO_TUPLE: Final = _to_tuple()


# The rest may run user code (hashing, iteration), so it is left to CPython.


@opcode("LIST_EXTEND")
def list_extend(f: Frame, depth: int) -> None:
    _update(f, "LIST_EXTEND", depth)


@opcode("SET_ADD")
def set_add(f: Frame, depth: int) -> None:
    _update(f, "SET_ADD", depth)


@opcode("SET_UPDATE")
def set_update(f: Frame, depth: int) -> None:
    _update(f, "SET_UPDATE", depth)


@opcode("DICT_UPDATE")
def dict_update(f: Frame, depth: int) -> None:
    _update(f, "DICT_UPDATE", depth)


def _update(f: Frame, name: str, depth: int) -> None:
    stack = f.stack
    item = stack.pop()
    f.ops.instruction(f, thunk(name, 1, 2, 1), stack[-depth], item)


@opcode("MAP_ADD")
def map_add(f: Frame, depth: int) -> None:
    stack = f.stack
    value = stack.pop()
    key = stack.pop()
    f.ops.instruction(f, thunk("MAP_ADD", 1, 3, 1), stack[-depth], key, value)


@opcode("DICT_MERGE")
def dict_merge(f: Frame, depth: int) -> None:
    """The callable below on the stack is named in error messages."""
    stack = f.stack
    update = stack.pop()
    target = stack[-depth]
    if TABLES.null_first:
        f.ops.instruction(f, thunk("DICT_MERGE", 1, 4, 1), stack[-depth - 2], None, target, update)
    else:
        f.ops.instruction(
            f, thunk("DICT_MERGE", 1, 5, 1), stack[-depth - 3], None, None, target, update
        )
