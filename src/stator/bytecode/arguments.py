"""What an instruction's argument means.

Stage: bytecode. In: an instruction and the `Decoded` it comes from. Out: constants, names,
operators and flags.

`resolve` answers for any instruction; the functions above it answer for one kind of argument each,
with a precise type. They do not check the kind: asking for the `name` of a LOAD_CONST gives a
meaningless answer, as indexing `co_names` by hand would.
"""

from collections.abc import Callable, Mapping
from enum import IntFlag
from typing import Final, NamedTuple

from stator.bytecode.decode import Decoded, Instruction
from stator.bytecode.tables import (
    BINARY_OPERATORS,
    COMPARISONS,
    TABLES,
    ArgKind,
    BinaryOperator,
)


class FlaggedName(NamedTuple):
    """LOAD_GLOBAL's argument (`flag`: push a NULL too) and LOAD_ATTR's (`flag`: as a method)."""

    name: str
    flag: bool


class SuperName(NamedTuple):
    """LOAD_SUPER_ATTR's argument."""

    name: str
    method: bool
    """Push the method and self, or the attribute and NULL, for a call."""
    two_arguments: bool
    """The source says `super(cls, self)`, not `super()`."""


class ImportedName(NamedTuple):
    """IMPORT_NAME's argument. Where neither is said, settings of the program decide."""

    name: str
    lazy: bool
    eager: bool


class Comparison(NamedTuple):
    """COMPARE_OP's argument."""

    symbol: str
    to_bool: bool
    """The result is converted to a bool."""


class Conversion(NamedTuple):
    """FORMAT_VALUE's and CONVERT_VALUE's argument."""

    function: str | None
    """The builtin applied to the value: str, repr, ascii or none."""
    with_spec: bool
    """A format specification is on the stack."""


class FunctionAttribute(IntFlag):
    """What MAKE_FUNCTION takes from the stack or SET_FUNCTION_ATTRIBUTE sets."""

    DEFAULTS = 1
    KWDEFAULTS = 2
    ANNOTATIONS = 4
    CLOSURE = 8
    ANNOTATE = 16
    """A function that makes the annotations (3.14+)."""


_FLAG_BITS: Final = {
    ArgKind.NAME: 0,
    ArgKind.NAME_FLAG1: 1,
    ArgKind.NAME_FLAG2: 2,
    ArgKind.NAME_IMPORT: 2,
}
_NAME_SHIFTS: Final[Mapping[str, int]] = {
    name: bits for kind, bits in _FLAG_BITS.items() for name in TABLES.opcodes.get(kind, ())
}
_CONVERSIONS: Final = (None, "str", "repr", "ascii")
_CONVERSION_SPEC: Final = 4


def kind_of(instruction: Instruction) -> ArgKind:
    """What kind of argument the instruction has."""
    return TABLES.kinds[instruction.name]


def constant(decoded: Decoded, instruction: Instruction) -> object:
    """The constant of LOAD_CONST, RETURN_CONST, KW_NAMES."""
    value: object = decoded.code.co_consts[instruction.arg]
    return value


def name(decoded: Decoded, instruction: Instruction) -> str:
    """The name that an instruction with any kind of NAME argument refers to."""
    return decoded.code.co_names[instruction.arg >> _NAME_SHIFTS[instruction.name]]


def name_flag(instruction: Instruction) -> bool:
    """The low flag bit above which a name index stands; false where there is none.

    LOAD_GLOBAL: push a NULL too. LOAD_ATTR, LOAD_SUPER_ATTR: load a method to call.
    """
    return bool(_NAME_SHIFTS[instruction.name] and instruction.arg & 1)


def loads_method(instruction: Instruction) -> bool:
    """Whether an attribute is loaded for a call: LOAD_METHOD (3.11), a flag of LOAD_ATTR later."""
    if instruction.name == "LOAD_METHOD":
        return True
    return instruction.name == "LOAD_ATTR" and name_flag(instruction)


def flagged_name(decoded: Decoded, instruction: Instruction) -> FlaggedName:
    """The argument of LOAD_GLOBAL, and of LOAD_ATTR where it has a method form."""
    return FlaggedName(name(decoded, instruction), instruction.arg & 1 == 1)


def super_name(decoded: Decoded, instruction: Instruction) -> SuperName:
    """The argument of LOAD_SUPER_ATTR."""
    arg = instruction.arg
    return SuperName(name(decoded, instruction), arg & 1 == 1, arg & 2 == 2)


def imported(decoded: Decoded, instruction: Instruction) -> ImportedName:
    """The argument of IMPORT_NAME (3.15+)."""
    arg = instruction.arg
    return ImportedName(name(decoded, instruction), arg & 1 == 1, arg & 2 == 2)


def local(decoded: Decoded, instruction: Instruction) -> str:
    """The variable of an instruction with a LOCAL or CELL argument."""
    return decoded.localsplus[instruction.arg]


def pair(instruction: Instruction) -> tuple[int, int]:
    """The two indices of a LOCAL_PAIR argument, in the order in which they are used."""
    return instruction.arg >> 4, instruction.arg & 15


def replaced(instruction: Instruction) -> tuple[int, ...]:
    """The variables (in localsplus) that an instruction stores into, or deletes, in its order."""
    if instruction.name == "STORE_FAST_STORE_FAST":  # 3.13+
        return pair(instruction)
    if instruction.name == "STORE_FAST_LOAD_FAST":  # 3.13+
        return pair(instruction)[:1]
    return (instruction.arg,) if instruction.name in _REPLACES else ()


_REPLACES: Final = frozenset({"STORE_FAST", "STORE_DEREF", "DELETE_FAST", "DELETE_DEREF"})


def local_pair(decoded: Decoded, instruction: Instruction) -> tuple[str, str]:
    """The two variables of a LOCAL_PAIR argument, in the order in which they are used."""
    first, second = pair(instruction)
    return decoded.localsplus[first], decoded.localsplus[second]


def keyword_names(decoded: Decoded, instruction: Instruction) -> tuple[str, ...] | None:
    """The keywords of a CALL that KW_NAMES before it names (3.11, 3.12); None without any."""
    index = decoded.index(instruction.unit)
    for before in reversed(decoded.instructions[max(index - 2, 0) : index]):
        if before.name == "KW_NAMES":
            names: tuple[str, ...] = decoded.code.co_consts[before.arg]
            return names
        if before.name != "PRECALL":
            break
    return None


def comparison(instruction: Instruction) -> Comparison:
    """The operator of COMPARE_OP."""
    arg = instruction.arg
    symbol = COMPARISONS[arg >> TABLES.compare_shift]
    return Comparison(symbol, arg & TABLES.compare_to_bool != 0)


def binary_operator(instruction: Instruction) -> BinaryOperator:
    """The operator of BINARY_OP."""
    return BINARY_OPERATORS[instruction.arg]


def common_constant(instruction: Instruction) -> object:
    """The constant of LOAD_COMMON_CONSTANT."""
    return TABLES.common_constants[instruction.arg]


def special_method(instruction: Instruction) -> str:
    """The method that LOAD_SPECIAL looks up."""
    return TABLES.special_methods[instruction.arg]


def intrinsic1(instruction: Instruction) -> str:
    """The function that CALL_INTRINSIC_1 calls, such as `IMPORT_STAR`."""
    return TABLES.intrinsics1[instruction.arg]


def intrinsic2(instruction: Instruction) -> str:
    """The function that CALL_INTRINSIC_2 calls, such as `PREP_RERAISE_STAR`."""
    return TABLES.intrinsics2[instruction.arg]


def conversion(instruction: Instruction) -> Conversion:
    """The conversion of FORMAT_VALUE or CONVERT_VALUE."""
    arg = instruction.arg
    return Conversion(_CONVERSIONS[arg & 3], arg & _CONVERSION_SPEC != 0)


def function_attributes(instruction: Instruction) -> FunctionAttribute:
    """The attributes given to MAKE_FUNCTION or SET_FUNCTION_ATTRIBUTE."""
    return FunctionAttribute(instruction.arg)


def unpack_counts(instruction: Instruction) -> tuple[int, int]:
    """How many targets UNPACK_EX has before and behind the starred one."""
    return instruction.arg & 0xFF, instruction.arg >> 8


_RESOLVERS: Final[Mapping[ArgKind, Callable[[Decoded, Instruction], object]]] = {
    ArgKind.NONE: lambda decoded, instruction: None,
    ArgKind.CONST: constant,
    ArgKind.NAME: name,
    ArgKind.NAME_FLAG1: flagged_name,
    ArgKind.NAME_FLAG2: super_name,
    ArgKind.NAME_IMPORT: imported,
    ArgKind.LOCAL: local,
    ArgKind.LOCAL_PAIR: local_pair,
    ArgKind.CELL: local,
    ArgKind.JUMP: lambda decoded, instruction: instruction.target,
    ArgKind.COMPARE: lambda decoded, instruction: comparison(instruction),
    ArgKind.BINARY: lambda decoded, instruction: binary_operator(instruction),
    ArgKind.COMMON: lambda decoded, instruction: common_constant(instruction),
    ArgKind.SPECIAL: lambda decoded, instruction: special_method(instruction),
    ArgKind.INTRINSIC1: lambda decoded, instruction: intrinsic1(instruction),
    ArgKind.INTRINSIC2: lambda decoded, instruction: intrinsic2(instruction),
    ArgKind.CONVERSION: lambda decoded, instruction: conversion(instruction),
    ArgKind.FUNCTION: lambda decoded, instruction: function_attributes(instruction),
    ArgKind.FLAGS: lambda decoded, instruction: instruction.arg == 1,
    ArgKind.COUNT: lambda decoded, instruction: instruction.arg,
    ArgKind.STACK: lambda decoded, instruction: instruction.arg,
    ArgKind.RAW: lambda decoded, instruction: instruction.arg,
}


def resolve(decoded: Decoded, instruction: Instruction) -> object:
    """What the argument of any instruction means, as the function for its kind answers it.

    None where the opcode takes no argument, the target unit of a jump, a bool for FLAGS, and the
    number itself where it is just a number.
    """
    return _RESOLVERS[TABLES.kinds[instruction.name]](decoded, instruction)
