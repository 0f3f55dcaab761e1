"""The instructions of a trace, for the log `+dynamo`.

Stage: capture. In: the loop, which takes a tick before each instruction. Out: lines of text, kept
until the trace has ended: whoever reads logs may run code of the program, and must not do so in the
middle of a trace. The text says nothing of values but their types, so none is touched.
"""

import linecache
import sys
import threading
from types import CodeType
from typing import Any, Final

from stator._native._core import Frame
from stator.bytecode import decode
from stator.bytecode.listing import argument
from stator.objects.types import name_of

_MOST: Final = 200_000  # lines
_DEPTH: Final = 6  # values of the stack that are shown


class _Noted(threading.local):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.place: tuple[CodeType, int] | None = None


_noted: Final = _Noted()


class Steps:
    """Ticks for `evaluate_for` that note each instruction."""

    def __init__(self, limit: int) -> None:
        self._ticks: Any = iter(range(limit))

    def __iter__(self) -> "Steps":
        return self

    def __next__(self) -> int:
        tick: int = next(self._ticks)
        if len(_noted.lines) < _MOST:
            # The loop's own variable: the innermost frame of the program.
            _note(sys._getframe(1).f_locals["f"])
        return tick

    def __length_hint__(self) -> int:
        return int(self._ticks.__length_hint__())


def take() -> list[str]:
    """What was noted in this thread, which is forgotten."""
    lines = _noted.lines
    _noted.lines, _noted.place = [], None
    if len(lines) >= _MOST:
        lines.append("… and more")
    return lines


def _note(frame: Frame) -> None:
    code, unit = frame.code, frame.info.unit(frame.ip)
    line = frame.info.line(code, frame.ip)
    if _noted.place is None or _noted.place[0] is not code or _noted.place[1] != line:
        _noted.place = code, line
        text = linecache.getline(code.co_filename, line).strip()
        _noted.lines.append(f"{code.co_filename}:{line} in {code.co_qualname}: {text}")
    _noted.lines.append(f"    {_instruction(code, unit):<36} [{_stack(frame.stack)}]")


def _instruction(code: CodeType, unit: int) -> str:
    decoded = decode(code)
    found = next(each for each in decoded.instructions if each.unit == unit)
    return f"{found.name:<22} {argument(decoded, found)}".rstrip()


def _stack(values: list[Any]) -> str:
    shown = [str(name_of(type(value))) for value in values[-_DEPTH:]]
    return ", ".join(["…"][: len(values) > _DEPTH] + shown)
