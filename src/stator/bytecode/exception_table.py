"""The exception table of a code object: which handler covers which code units.

Stage: bytecode. In: `co_exceptiontable`. Out: `Handler`s, and back to bytes for the emitter.

The format is CPython's (`Objects/exception_handling_notes.txt`): an entry is four numbers, start,
length, target and depth * 2 + lasti, each written in groups of six bits, the highest first. Bit 6
of a byte says that the number goes on; bit 7 marks the first byte of an entry, so that CPython can
search in the bytes.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_ENTRY: Final = 0x80
_MORE: Final = 0x40
_GROUP: Final = 0x3F


class BytecodeError(ValueError):
    """Bytecode that no compiler of the running Python can have made."""


class Handler(NamedTuple):
    """One entry. Positions are in code units; the covered range is [start, end).

    When an instruction in the range raises, the stack is cut to `depth`, the unit of that
    instruction is pushed if `lasti`, then the exception, and control goes to `target`.
    """

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def parse_exception_table(table: bytes) -> tuple[Handler, ...]:
    """The entries in the order of the table, which is by position."""
    if not table:
        return ()
    numbers = _numbers(table)
    if len(numbers) % 4:
        raise BytecodeError(f"the exception table ends within an entry: {table!r}")
    entries = zip(numbers[0::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    handlers = [
        Handler(start, start + length, target, last >> 1, last & 1 == 1)
        for start, length, target, last in entries
    ]
    return (*handlers,)


def _numbers(table: bytes) -> list[int]:
    numbers: list[int] = []
    value = 0
    byte = 0
    for byte in table:
        value = value << 6 | byte & _GROUP
        if not byte & _MORE:
            numbers.append(value)
            value = 0
    if byte & _MORE:
        raise BytecodeError(f"the exception table ends within a number: {table!r}")
    return numbers


def encode_exception_table(handlers: Iterable[Handler]) -> bytes:
    """The bytes of `co_exceptiontable` for these entries.

    They must be in order and must not overlap (nesting is expressed by cutting the outer range
    into pieces): CPython searches the table by position and takes the first match.
    """
    table = bytearray()
    covered = 0
    for handler in handlers:
        if not covered <= handler.start < handler.end:
            raise BytecodeError(f"{handler} is empty, out of order or overlaps the one before it")
        if handler.target < 0 or handler.depth < 0:
            raise BytecodeError(f"{handler} has a negative target or depth")
        covered = handler.end
        first = len(table)
        table += bytes(_groups(handler.start))
        table[first] |= _ENTRY
        table += bytes(_groups(handler.end - handler.start))
        table += bytes(_groups(handler.target))
        table += bytes(_groups(handler.depth << 1 | handler.lasti))
    return bytes(table)


def _groups(value: int) -> Iterator[int]:
    for shift in range((max(value.bit_length(), 1) - 1) // 6 * 6, 0, -6):
        yield value >> shift & _GROUP | _MORE
    yield value & _GROUP


def find_handler(handlers: tuple[Handler, ...], unit: int) -> Handler | None:
    """The entry that covers a unit; entries do not overlap."""
    for handler in handlers:
        if handler.start <= unit < handler.end:
            return handler
    return None
