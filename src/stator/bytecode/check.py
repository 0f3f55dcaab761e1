"""The invariants of decoded code.

Stage: bytecode; run by tests, and on what the emitter makes. In: a `Decoded`. Out: nothing, or
`BytecodeError` that says what is wrong and where.
"""

from stator.bytecode.arguments import resolve
from stator.bytecode.decode import Decoded, Instruction
from stator.bytecode.exception_table import BytecodeError
from stator.bytecode.tables import TABLES


def check(decoded: Decoded) -> None:
    """Raise `BytecodeError` unless everything that decoded code promises holds."""
    starts = {instruction.start for instruction in decoded.instructions}
    _check_partition(decoded)
    for instruction in decoded.instructions:
        _check_argument(decoded, instruction)
        if instruction.target is not None:
            _check_jump(decoded, instruction, instruction.target, starts)
    _check_handlers(decoded, starts)


def _broken(decoded: Decoded, what: str) -> BytecodeError:
    return BytecodeError(f"{decoded!r}: {what}")


def _check_partition(decoded: Decoded) -> None:
    """Every unit belongs to one instruction, and control cannot run off the end."""
    behind = 0
    for instruction in decoded.instructions:
        if instruction.start != behind:
            raise _broken(decoded, f"a gap or an overlap before {instruction}")
        if not instruction.start <= instruction.unit < instruction.next:
            raise _broken(decoded, f"the units of {instruction} are out of order")
        behind = instruction.next
    if behind != decoded.units:
        raise _broken(decoded, f"instructions end at {behind} of {decoded.units} units")
    if not decoded.instructions or decoded.instructions[-1].name not in TABLES.terminators:
        raise _broken(decoded, "control runs off the end")


def _check_argument(decoded: Decoded, instruction: Instruction) -> None:
    """The argument refers to something that exists; an opcode has a target if it is a jump."""
    try:
        resolve(decoded, instruction)
    except (IndexError, ValueError):
        raise _broken(decoded, f"the argument of {instruction} is out of range") from None
    if (instruction.name in TABLES.jumps) != (instruction.target is not None):
        raise _broken(decoded, f"{instruction} and its target disagree")


def _check_jump(decoded: Decoded, instruction: Instruction, target: int, starts: set[int]) -> None:
    """A jump lands on an instruction, FOR_ITER on the ones it skips at the end."""
    if target not in starts:
        raise _broken(decoded, f"{instruction} does not land on an instruction")
    if instruction.name == "FOR_ITER":
        first = decoded.index(target)
        there = decoded.instructions[first : first + TABLES.for_iter_skip]
        names = tuple(instruction.name for instruction in there)
        if names != TABLES.for_iter_exhausted:
            raise _broken(decoded, f"{instruction} lands on {names}")


def _check_handlers(decoded: Decoded, starts: set[int]) -> None:
    """Handlers are in order, do not overlap, and begin, end and land on instructions."""
    ends = starts | {decoded.units}
    covered = 0
    for handler in decoded.handlers:
        if not covered <= handler.start < handler.end:
            raise _broken(decoded, f"{handler} is empty, out of order or overlaps another")
        if handler.start not in starts or handler.end not in ends:
            raise _broken(decoded, f"{handler} covers an instruction in part")
        if handler.target not in starts:
            raise _broken(decoded, f"{handler} does not land on an instruction")
        if not 0 <= handler.depth <= decoded.code.co_stacksize:
            raise _broken(decoded, f"the depth of {handler} is impossible")
        covered = handler.end
