"""Bytes of code objects: instructions and the line table.

Stage: emit, below `resume`. In: opcode names with arguments; positions in the source. Out: pieces
of `co_code` and `co_linetable`. Jumps are relative, and `stator.bytecode` writes exception tables,
so there is nothing to link.
"""

from typing import Final

from stator.bytecode import TABLES, Positions
from stator.bytecode.tables import SUBSCRIPTION

_EXTENDED_ARG: Final = TABLES.opmap["EXTENDED_ARG"]
_LONG: Final = 14
_NO_COLUMNS: Final = 13
_NOWHERE: Final = 15
_ENTRY_UNITS: Final = 8
_VARINT_MORE: Final = 0x40


def encode(name: str, arg: int = 0) -> bytes:
    """One instruction with its EXTENDED_ARGs and empty inline caches."""
    encoded = bytearray()
    for shift in (24, 16, 8):
        if arg >> shift:
            encoded += bytes((_EXTENDED_ARG, arg >> shift & 0xFF))
    encoded += bytes((TABLES.opmap[name], arg & 0xFF))
    encoded += bytes(2 * TABLES.caches.get(name, 0))
    return bytes(encoded)


SUBSCRIPT: Final = (
    ("BINARY_SUBSCR", 0) if "BINARY_SUBSCR" in TABLES.opmap else ("BINARY_OP", SUBSCRIPTION)
)
"""The instruction that takes an item, and its argument."""


def locate(units: int, positions: Positions, line: int) -> bytes:
    """Entries of a line table that put some code units at one place in the source.

    `line` is where the entries before have left off (at first `co_firstlineno`): lines are written
    as distances (CPython's Objects/locations.md). Afterwards it is `positions[0]`, unless that is
    None.
    """
    first, last, column, end = positions
    table = bytearray()
    while units > 0:
        length = min(units, _ENTRY_UNITS)
        units -= length
        if first is None:
            table += _head(_NOWHERE, length)
            continue
        distance = first - line
        line = first
        if last is None or column is None or end is None:
            table += _head(_NO_COLUMNS, length) + _signed(distance)
        else:
            table += _head(_LONG, length) + _signed(distance) + _varint(last - first)
            table += _varint(column + 1) + _varint(end + 1)
    return bytes(table)


def _head(kind: int, length: int) -> bytes:
    return bytes((0x80 | kind << 3 | length - 1,))


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value >= _VARINT_MORE:
        groups.append(value & 0x3F | _VARINT_MORE)
        value >>= 6
    groups.append(value)
    return bytes(groups)


def _signed(value: int) -> bytes:
    return _varint(-value << 1 | 1 if value < 0 else value << 1)
