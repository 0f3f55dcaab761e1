"""Decoding a code object.

Stage: bytecode, the first thing that happens to a function. In: a code object. Out: `Decoded`, its
instructions (EXTENDED_ARG folded in, inline caches left out, jump targets resolved) and exception
handlers, with line numbers and the names of its variables on demand.

Every position is the index of a code unit (two bytes), which is also how jumps, the exception
table and `f_lasti // 2` count. What an argument means is in `arguments`, which facts hold for an
opcode in `tables`.

`decode` runs for every code object that a tracer meets, so its loop does nothing that could be
done at import and builds each instruction with one call.
"""

from types import CodeType
from typing import Final, NamedTuple, TypeAlias

from stator.bytecode.exception_table import (
    BytecodeError,
    Handler,
    find_handler,
    parse_exception_table,
)
from stator.bytecode.tables import TABLES, ArgKind, Tables

Positions: TypeAlias = tuple[int | None, int | None, int | None, int | None]
"""First line, last line, first column, last column, as from `co_positions()`."""

_NOWHERE: Final[Positions] = (None, None, None, None)


class Instruction(NamedTuple):
    """One instruction. A named tuple, because that is what Python constructs fastest."""

    opcode: int
    """The base opcode: never a specialized or instrumented one."""
    name: str
    arg: int
    """With EXTENDED_ARG folded in; 0 where the opcode takes none."""
    unit: int
    """Where the opcode itself stands; `f_lasti // 2` while it runs."""
    start: int
    """Where its first EXTENDED_ARG stands, else `unit`. Jumps to it land here."""
    next: int
    """Where the following instruction starts, behind the inline caches."""
    target: int | None
    """Where it jumps to, as a unit; None if it is no jump."""


class Decoded:
    """A decoded code object. Compared and hashed by identity."""

    __slots__ = (
        "_indices",
        "_lines",
        "_localsplus",
        "_positions",
        "code",
        "handlers",
        "instructions",
        "units",
    )

    code: CodeType
    instructions: tuple[Instruction, ...]
    """In order, without EXTENDED_ARG and CACHE."""
    handlers: tuple[Handler, ...]
    """In order; they do not overlap."""
    units: int
    """How many code units there are."""

    def __init__(
        self,
        code: CodeType,
        instructions: tuple[Instruction, ...],
        handlers: tuple[Handler, ...],
        units: int,
    ) -> None:
        self.code = code
        self.instructions = instructions
        self.handlers = handlers
        self.units = units
        self._indices: list[int] | None = None
        self._lines: list[int | None] | None = None
        self._positions: list[Positions] | None = None
        self._localsplus: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        code = self.code
        return (
            f"<Decoded {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}), "
            f"{len(self.instructions)} instructions, {len(self.handlers)} handlers>"
        )

    def index(self, unit: int) -> int:
        """The index in `instructions` of the one that covers this unit.

        An instruction covers its EXTENDED_ARGs, its opcode and its inline caches.
        """
        if not 0 <= unit < self.units:
            raise self._outside(unit)
        indices = self._indices
        if indices is None:
            indices = self._indices = []
            for index, instruction in enumerate(self.instructions):
                indices += [index] * (instruction.next - instruction.start)
        return indices[unit]

    def at(self, unit: int) -> Instruction:
        """The instruction that covers this unit."""
        return self.instructions[self.index(unit)]

    def handler_for(self, unit: int) -> Handler | None:
        """The handler for an exception raised at this unit; None if it leaves the frame.

        Entries do not overlap (CPython cuts an outer range where an inner one begins), so the one
        found is the innermost.
        """
        return find_handler(self.handlers, unit)

    def line_of(self, unit: int) -> int | None:
        """The source line of a unit; None for code that the compiler made up."""
        if not 0 <= unit < self.units:
            raise self._outside(unit)
        lines = self._lines
        if lines is None:
            lines = self._lines = []
            for first, last, line in self.code.co_lines():
                lines += [line] * ((last - first) // 2)
            lines += [None] * (self.units - len(lines))  # the line table may be stripped
        return lines[unit]

    def positions_of(self, unit: int) -> Positions:
        """First line, last line, first column, last column of a unit, each None if unknown."""
        if not 0 <= unit < self.units:
            raise self._outside(unit)
        positions = self._positions
        if positions is None:
            positions = self._positions = list(self.code.co_positions())
            positions += [_NOWHERE] * (self.units - len(positions))
        return positions[unit]

    @property
    def localsplus(self) -> tuple[str, ...]:
        """The names of the frame's slots, as LOAD_FAST and LOAD_DEREF index them.

        Variables, then cells that are not variables too (an argument that is captured has one slot
        only), then free variables: CPython's `co_localsplusnames`.
        """
        names = self._localsplus
        if names is None:
            code = self.code
            variables = code.co_varnames
            cells = [name for name in code.co_cellvars if name not in variables]
            names = self._localsplus = (*variables, *cells, *code.co_freevars)
        return names

    def _outside(self, unit: int) -> IndexError:
        return IndexError(f"unit {unit} is outside of {self!r}, which has {self.units} units")


class _Shape(NamedTuple):
    """What the loop of `decode` needs to know about an opcode."""

    name: str
    length: int
    """Units of the opcode and its inline caches."""
    mask: int
    """Selects the bits of the argument: all, or none where the opcode takes no argument."""
    direction: int
    """+1 and -1 for jumps, 0 for others."""


def _shape(tables: Tables, name: str) -> _Shape:
    jump = tables.jumps.get(name)
    return _Shape(
        name,
        1 + tables.caches.get(name, 0),
        0 if tables.kinds[name] is ArgKind.NONE else -1,
        jump.direction if jump else 0,
    )


_SHAPES: Final = {number: _shape(TABLES, name) for name, number in TABLES.opmap.items()}
_EXTENDED_ARG: Final = TABLES.opmap["EXTENDED_ARG"]
_MAKE: Final = tuple.__new__  # bound here: the program that is evaluated may replace `tuple`


def decode(code: CodeType) -> Decoded:
    """Decode a code object of the running Python."""
    if type(code) is not CodeType:
        raise TypeError(f"decode() needs a code object, not {type(code).__name__!r}")
    raw = code.co_code
    opcodes = raw[0::2]
    arguments = raw[1::2]
    units = len(opcodes)
    shapes = _SHAPES
    extended_arg = _EXTENDED_ARG
    make = _MAKE
    instructions: list[Instruction] = []
    append = instructions.append
    start = unit = prefix = 0
    try:
        while unit < units:
            opcode = opcodes[unit]
            if opcode == extended_arg:
                prefix = (prefix | arguments[unit]) << 8
                unit += 1
                continue
            name, length, mask, direction = shapes[opcode]
            arg = (prefix | arguments[unit]) & mask
            behind = unit + length
            target = behind + direction * arg if direction else None
            append(make(Instruction, (opcode, name, arg, unit, start, behind, target)))
            start = unit = behind
            prefix = 0
    except KeyError:
        raise BytecodeError(f"{code!r} has no valid opcode at unit {unit}: {opcode}") from None
    if start != units:
        raise BytecodeError(f"{code!r} ends within an instruction")
    handlers = parse_exception_table(code.co_exceptiontable)
    return Decoded(code, (*instructions,), handlers, units)
