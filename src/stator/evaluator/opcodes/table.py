"""Instructions that only turn values of the stack into others: a table.

CPython carries them out itself, see `thunks`. An entry says how many of the top values the
instruction reads, how many of those it removes, and how many values it then leaves on top.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, NamedTuple

from stator._native._core import Frame
from stator.bytecode import TABLES, Decoded, Instruction
from stator.bytecode.arguments import name as name_of
from stator.bytecode.arguments import unpack_counts
from stator.evaluator.opcodes.containers import list_to_tuple
from stator.evaluator.opcodes.functions import import_star
from stator.evaluator.opcodes.operators import unary_positive
from stator.evaluator.registry import SELECTORS, Handler, select
from stator.evaluator.thunks import thunk, thunk_code


class Effect(NamedTuple):
    reads: int
    removes: int
    leaves: int


CONSUME_1: Final = Effect(1, 1, 1)
CONSUME_2: Final = Effect(2, 2, 1)
CONSUME_3: Final = Effect(3, 3, 1)
LOOK_AT_1: Final = Effect(1, 0, 1)

EFFECTS: Final[dict[str, Effect | Callable[[Instruction], Effect]]] = {
    # unpacking and building
    "UNPACK_SEQUENCE": lambda i: Effect(1, 1, i.arg),
    "UNPACK_EX": lambda i: Effect(1, 1, sum(unpack_counts(i)) + 1),
    "BUILD_SET": lambda i: Effect(i.arg, i.arg, 1),
    "BUILD_MAP": lambda i: Effect(2 * i.arg, 2 * i.arg, 1),
    "BUILD_CONST_KEY_MAP": lambda i: Effect(i.arg + 1, i.arg + 1, 1),
    "BUILD_INTERPOLATION": lambda i: CONSUME_3 if i.arg & 1 else CONSUME_2,
    "BUILD_TEMPLATE": CONSUME_2,
    # formatting
    "FORMAT_VALUE": lambda i: CONSUME_2 if i.arg & 4 else CONSUME_1,
    "CONVERT_VALUE": CONSUME_1,
    "FORMAT_SIMPLE": CONSUME_1,
    "FORMAT_WITH_SPEC": CONSUME_2,
    "PRINT_EXPR": Effect(1, 1, 0),
    # match
    "MATCH_CLASS": Effect(3, 3, 1),
    "MATCH_KEYS": Effect(2, 0, 1),
    "MATCH_MAPPING": LOOK_AT_1,
    "MATCH_SEQUENCE": LOOK_AT_1,
    "GET_LEN": LOOK_AT_1,
    # with
    "BEFORE_WITH": Effect(1, 1, 2),
    "BEFORE_ASYNC_WITH": Effect(1, 1, 2),
    # exceptions
    "CHECK_EXC_MATCH": Effect(2, 1, 1),
    "CHECK_EG_MATCH": Effect(2, 2, 2),
    "PREP_RERAISE_STAR": CONSUME_2,
    # awaiting
    "GET_AITER": CONSUME_1,
    "GET_ANEXT": LOOK_AT_1,
    "GET_AWAITABLE": CONSUME_1,
    "GET_YIELD_FROM_ITER": CONSUME_1,
    "ASYNC_GEN_WRAP": CONSUME_1,
    # imports
    "IMPORT_FROM": LOOK_AT_1,
}


class Native(NamedTuple):
    """The operand of `native`: what it calls and what it does to the stack."""

    thunk: FunctionType
    reads: int
    removes: int
    leaves: int


def native(f: Frame, operand: Native) -> None:
    """Let CPython carry out one instruction on the top of the stack."""
    function, reads, removes, leaves = operand
    stack = f.stack
    operands = stack[-reads:] if reads else ()
    if removes:
        del stack[-removes:]
    result = f.ops.instruction(f, function, *operands)
    if leaves == 1:
        stack.append(result)
    elif leaves:
        stack.extend(result)


def select_native(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Native]:
    effect = EFFECTS[instruction.name]
    if not isinstance(effect, Effect):  # own: an entry of the table above
        effect = effect(instruction)
    arg = instruction.arg
    names: tuple[str, ...] = ()
    if instruction.name == "IMPORT_FROM":
        arg, names = 0, (name_of(decoded, instruction),)
    function = thunk(
        instruction.name, arg, effect.reads, effect.leaves, names, decoded.code.co_flags
    )
    return native, Native(function, *effect)


SELECTORS.update(dict.fromkeys(EFFECTS, select_native))

# ---- intrinsics (3.12+)


class Intrinsic(NamedTuple):
    name: str
    number: int
    reads: int


def intrinsic(f: Frame, operand: Intrinsic) -> None:
    """Some look at the frame: at its kind of generator and at the module it belongs to."""
    opname, number, reads = operand
    code = thunk_code(opname, number, reads, 1, (), f.code.co_flags)
    stack = f.stack
    operands = stack[-reads:]
    del stack[-reads:]
    stack.append(f.ops.instruction(f, FunctionType(code, f.globals), *operands))


def _import_star_intrinsic(f: Frame, operand: Any) -> None:
    import_star(f, operand)
    f.stack.append(None)


SPECIAL_INTRINSICS: Final[dict[str, Handler]] = {
    "IMPORT_STAR": _import_star_intrinsic,
    "UNARY_POSITIVE": unary_positive,
    "LIST_TO_TUPLE": list_to_tuple,
}


@select("CALL_INTRINSIC_1")
def select_intrinsic_1(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Any]:
    special = SPECIAL_INTRINSICS.get(TABLES.intrinsics1[instruction.arg])
    if special is not None:
        return special, None
    return intrinsic, Intrinsic(instruction.name, instruction.arg, 1)


@select("CALL_INTRINSIC_2")
def select_intrinsic_2(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Any]:
    return intrinsic, Intrinsic(instruction.name, instruction.arg, 2)
