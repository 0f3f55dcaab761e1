"""Tracebacks of exceptions that a residual function raises: the user's frames, as in eager.

In: where the exception passed while it was traced. Out: a residual function that stands in the
place of the user's, and stubs for the frames it called, which no longer run.
"""

from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final

from stator.bytecode import TABLES, decode
from stator.effects.exits import Entry


def _stub() -> Iterator[None]:
    yield


# Of a generator, whose frame is there before it runs. It has no caller that it would keep alive.
_TEMPLATE: Final = _stub.__code__


def chain(places: Sequence[Entry], behind: TracebackType | None = None) -> TracebackType | None:
    """A traceback of frames that have ended."""
    made = behind
    for place in reversed(places):
        code = placed(_TEMPLATE, place).replace(co_name=place.name)
        made = TracebackType(made, FunctionType(code, {})().gi_frame, 0, place.line)
    return made


def hidden(code: CodeType) -> CodeType:
    """The same code without RESUME: for CPython its frame has not begun, no traceback shows it."""
    units = bytearray(code.co_code)
    for step in decode(code).instructions:
        if step.name == "RESUME":  # and the caches behind it, since 3.15
            nop = bytes((TABLES.opmap["NOP"], 0))
            units[2 * step.unit : 2 * step.next] = nop * (step.next - step.unit)
    return code.replace(co_code=bytes(units))


def placed(code: CodeType, place: Entry) -> CodeType:
    """The same code, all of it at one place of another file."""
    units = len(code.co_code) // 2
    # Entries without columns (kind 13) or with them (kind 14), no line further than the last one.
    kind, where = 13, b""
    if place.columns is not None:
        end, first, behind = place.columns
        kind, where = 14, _number(end - place.line) + _number(first + 1) + _number(behind + 1)
    table = bytearray()
    while units > 0:
        length = min(units, 8)
        table += bytes((0x80 | kind << 3 | length - 1, 0)) + where
        units -= length
    changes: dict[str, Any] = {
        "co_filename": place.file,
        "co_firstlineno": place.line,
        "co_linetable": bytes(table),
        "co_qualname": place.qualname,
    }
    return code.replace(**changes)


def _number(value: int) -> bytes:
    """As line tables have it: six bits at a time, the lowest first."""
    groups = bytearray()
    while value > 63:
        groups.append(0x40 | value & 63)
        value >>= 6
    return bytes((*groups, value))
