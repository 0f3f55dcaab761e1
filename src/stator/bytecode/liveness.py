"""Which variables a function still needs, from an instruction on.

Stage: bytecode. In: a code object and a unit. Out: indices of localsplus whose values some path
from there reads before it writes them. A cell is read by whatever mentions it, also by a store:
it is the cell that is needed then. Code that can ask for all its variables needs all of them.
"""

from functools import lru_cache
from types import CodeType
from typing import Final

from stator.bytecode.arguments import pair
from stator.bytecode.decode import Decoded, Instruction, decode
from stator.bytecode.tables import TABLES, ArgKind

FRAME_READERS: Final = frozenset(
    {"locals", "vars", "dir", "eval", "exec", "_getframe", "stack", "currentframe", "breakpoint"}
)
_ENDS: Final = frozenset(
    {
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    }
)


def live(code: CodeType, unit: int) -> frozenset[int]:
    """The variables needed when the instruction at this unit is the next one."""
    masks, units = _masks(code)
    mask = masks[units[unit]]
    return frozenset(index for index in range(mask.bit_length()) if mask >> index & 1)


@lru_cache(1000)
def _masks(code: CodeType) -> tuple[list[int], list[int]]:
    """For each instruction the variables needed before it, as bits; for each unit, which it is."""
    decoded = decode(code)
    instructions = decoded.instructions
    units = [0] * decoded.units
    for index, instruction in enumerate(instructions):
        for unit in range(instruction.start, instruction.next):
            units[unit] = index
    if FRAME_READERS.intersection(code.co_names):
        everything = (1 << len(decoded.localsplus)) - 1
        return [everything] * len(instructions), units
    always = 0
    if "super" in code.co_names:  # without arguments it looks for the first one and the class
        always = 1
        if "__class__" in code.co_freevars:
            always |= 1 << decoded.localsplus.index("__class__")
    reads, writes, ways = [], [], []
    for index, instruction in enumerate(instructions):
        read, written = _use(instruction)
        reads.append(read | always)
        writes.append(written)
        ways.append(_successors(decoded, index, units))
    needed = [0] * len(instructions)
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(instructions))):
            after = 0
            for way in ways[index]:
                after |= needed[way]
            before = reads[index] | (after & ~writes[index])
            # An exception may come before the write has happened.
            handler = decoded.handler_for(instructions[index].unit)
            if handler is not None:
                before |= needed[units[handler.target]]
            if before != needed[index]:
                needed[index] = before
                changed = True
    return needed, units


def _successors(decoded: Decoded, index: int, units: list[int]) -> list[int]:
    instruction = decoded.instructions[index]
    ways = [] if instruction.name in _ENDS else [index + 1]
    if instruction.target is not None:
        ways.append(units[instruction.target])
    return [way for way in ways if way < len(decoded.instructions)]


def _use(instruction: Instruction) -> tuple[int, int]:
    """The variables an instruction reads and writes, as bits."""
    name, kind = instruction.name, TABLES.kinds[instruction.name]
    if kind is ArgKind.CELL:
        return 1 << instruction.arg, 0
    if kind is ArgKind.LOCAL_PAIR:
        first, second = (1 << index for index in pair(instruction))
        if name == "STORE_FAST_STORE_FAST":
            return 0, first | second
        if name == "STORE_FAST_LOAD_FAST":
            return second & ~first, first
        return first | second, 0
    if kind is ArgKind.LOCAL:
        if name == "STORE_FAST":
            return 0, 1 << instruction.arg
        if name == "LOAD_FAST_AND_CLEAR":
            return 1 << instruction.arg, 1 << instruction.arg
        return 1 << instruction.arg, 0
    return 0, 0
