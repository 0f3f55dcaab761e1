"""The progress of long compiles, on one line of a terminal.

Stage: all that compile. In: which function, and which stage. Out: after a second, a line on
standard error that is kept up to date and disappears in the end. Only if standard error is a
terminal and `config.progress` is set.

The line is drawn by a thread that nobody sees who looks for threads with `threading`, and straight
to the terminal. So the program that is traced meanwhile can't notice it.
"""

import _thread
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from stator import config

_PATIENCE: Final = 1.0  # seconds, before there is a line
_PERIOD: Final = 0.1
_WIDTH: Final = 80  # of a terminal that does not tell
_ERASE: Final = b"\r\x1b[K"


class _Line:
    """The line of one compile, and what is in it."""

    def __init__(self, what: str, terminal: int) -> None:
        self.what = what
        self.stage = "preparing"
        self.count: Callable[[], int] | None = None
        self.terminal = terminal
        self.process = os.getpid()
        self.ended = _thread.allocate_lock()
        self.drawing = _thread.allocate_lock()
        self.drawn = False
        self.held = 0  # while something else is being written
        self.began = time.monotonic()
        self.ended.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        wait = _PATIENCE
        while not self.ended.acquire(timeout=wait):
            wait = _PERIOD
            with self.drawing:
                if _line is self and not self.held:
                    self._write(_ERASE + self._text().encode(errors="replace"))
                    self.drawn = True

    def end(self) -> None:
        if self.process == os.getpid():  # else this is a copy, without its thread
            self.ended.release()
            self.clear()

    def clear(self, held: int = 0) -> None:
        """Erases the line; it is not drawn again while it is held."""
        with self.drawing:
            self.held += held
            if self.drawn:
                self._write(_ERASE)
                self.drawn = False

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            os.write(self.terminal, data)

    def _text(self) -> str:
        count = self.count
        counted = "" if count is None else f", {count()} ops"
        seconds = time.monotonic() - self.began
        text = f"stator: {self.what}: {self.stage}{counted}, {seconds:.0f} s"
        try:
            columns = os.get_terminal_size(self.terminal).columns or _WIDTH
        except OSError:
            columns = _WIDTH
        return text if len(text) < columns else text[: columns - 2] + "…"


_line: _Line | None = None


@contextlib.contextmanager
def compiling(name: str, file: str, line: int) -> Iterator[None]:
    """While a function is compiled; what is compiled on the way has no line of its own."""
    global _line
    terminal = _terminal()
    if terminal is None or (_line is not None and _line.process == os.getpid()):
        yield
        return
    _line = mine = _Line(f"{name} ({os.path.basename(file)}:{line})", terminal)
    try:
        yield
    finally:
        _line = None
        mine.end()


def stage(name: str, count: Callable[[], int] | None = None) -> None:
    """What is being done now, and how many operations there are so far."""
    line = _line
    if line is not None:
        line.stage, line.count = name, count


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """The line is away while something else is written."""
    line = _line
    if line is None or line.process != os.getpid():
        yield
        return
    line.clear(held=1)
    try:
        yield
    finally:
        with line.drawing:
            line.held -= 1


def _terminal() -> int | None:
    """The file of standard error, if it is a terminal that can erase a line."""
    if not config.progress or os.environ.get("TERM") == "dumb":
        return None
    stream = sys.__stderr__
    if stream is None or stream is not sys.stderr:  # a program may have put anything in its place
        return None
    try:
        return stream.fileno() if stream.isatty() else None
    except (OSError, ValueError):
        return None
