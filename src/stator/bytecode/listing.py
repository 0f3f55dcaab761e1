"""Decoded code as text, for people.

Stage: bytecode, diagnostics. In: a `Decoded`. Out: a listing with one instruction per line: source
line (where it changes), a mark if something jumps there, unit, opcode, argument and its meaning.
"""

from types import CodeType, EllipsisType, NoneType
from typing import Final

from stator.bytecode import arguments
from stator.bytecode.decode import Decoded, Instruction
from stator.bytecode.tables import ArgKind

_PLAIN: Final = frozenset({bool, bytes, complex, float, int, str, CodeType, EllipsisType, NoneType})


def listing(decoded: Decoded) -> str:
    """The listing of a code object, without those nested in its constants."""
    landings = {instruction.target for instruction in decoded.instructions}
    landings.update(handler.target for handler in decoded.handlers)
    rows = []
    previous: int | None = None
    for instruction in decoded.instructions:
        line = decoded.line_of(instruction.unit)
        shown = "" if line is None or line == previous else str(line)
        mark = ">>" if instruction.start in landings else ""
        row = f"{shown:>5} {mark:>2} {instruction.start:>5} {instruction.name:<30}"
        rows.append(f"{row} {argument(decoded, instruction)}".rstrip())
        previous = line
    for start, end, target, depth, lasti in decoded.handlers:
        rows.append(f"{start} to {end} -> {target}, depth {depth}{', lasti' if lasti else ''}")
    return "\n".join(rows)


def argument(decoded: Decoded, instruction: Instruction) -> str:
    """The argument as a number, with its meaning where that says more."""
    match arguments.kind_of(instruction):
        case ArgKind.NONE:
            return ""
        case ArgKind.COUNT | ArgKind.STACK | ArgKind.FLAGS | ArgKind.RAW:
            return f"{instruction.arg:>5}"
        case ArgKind.CONST:
            meaning = _constant(arguments.constant(decoded, instruction))
        case ArgKind.NAME_FLAG1 | ArgKind.NAME_FLAG2:
            flag = ", flag" if arguments.name_flag(instruction) else ""
            meaning = arguments.name(decoded, instruction) + flag
        case ArgKind.LOCAL_PAIR:
            meaning = ", ".join(arguments.local_pair(decoded, instruction))
        case ArgKind.JUMP:
            meaning = f"to {instruction.target}"
        case ArgKind.COMPARE:
            meaning = arguments.comparison(instruction).symbol
        case ArgKind.BINARY:
            meaning = arguments.binary_operator(instruction).symbol
        case ArgKind.CONVERSION:
            meaning = arguments.conversion(instruction).function or "no conversion"
        case ArgKind.FUNCTION:
            meaning = arguments.function_attributes(instruction).name or "nothing"
        case _:
            meaning = str(arguments.resolve(decoded, instruction))
    return f"{instruction.arg:>5} ({meaning})"


def _constant(value: object) -> str:
    """A constant, shown without running code of its own: emitted code may hold user objects."""
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) is tuple:
        return f"({', '.join(map(_constant, value))})"
    return f"<{type(value).__name__}>"
