"""Where log records go, and how they look: coloured on terminals, plain in files.

Stage: diagnostics. In: the logger `stator`, and a file or none. Out: one handler on it. Programs
with handlers of their own on `stator` or a logger below it get the records, too.
"""

import logging
import os
import re
import sys
from typing import Any, Final, TextIO

from stator.diagnostics import progress

_FORMAT: Final = "[%(name)s] %(message)s"


def rank_in_front() -> str:
    """`[rank N] ` where there are several ranks: their records may come on one terminal.

    As torchrun and others say it to each process; else as torch.distributed was told.
    """
    rank, count = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdigit() and count.isdigit()):
        distributed: Any = sys.modules.get("torch.distributed")
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return ""
        rank, count = str(distributed.get_rank()), str(distributed.get_world_size())
    return f"[rank {rank}] " if int(count) > 1 else ""


class _Plain(logging.Formatter):
    """A record as it goes to a file."""

    def format(self, record: logging.LogRecord) -> str:
        return rank_in_front() + super().format(record)


_RESET: Final = "\x1b[0m"
_DIM: Final = "\x1b[2m"
_BOLD: Final = "\x1b[1m"

# For the name in front, by log; all others are cyan.
_COLOURS: Final = {
    "stator.graph_breaks": "\x1b[31m",
    "stator.recompiles": "\x1b[33m",
    "stator.perf_hints": "\x1b[33m",
    "stator.guards": "\x1b[34m",
    "stator.side_effects": "\x1b[35m",
    "stator.dynamic": "\x1b[32m",
}
# Parts of messages: what to do, where it is.
_PARTS: Final = (
    (re.compile(r"^( *fix: .*)$", re.MULTILINE), "\x1b[32m"),
    (re.compile(r"^( *\[S[BR]\d{4}\].*)$", re.MULTILINE), _DIM),
    (re.compile(r"((?:/|<)[^\s:()]+:\d+)"), "\x1b[36m"),
)


def coloured(stream: Any) -> bool:
    """Whether text for this stream may have colours: NO_COLOR and FORCE_COLOR decide, if set."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and bool(stream.isatty())


class _Coloured(logging.Formatter):
    """The name in front in the colour of its log, the first line bold."""

    def format(self, record: logging.LogRecord) -> str:
        first, found, rest = record.getMessage().partition("\n")
        for pattern, colour in _PARTS:
            rest = pattern.sub(rf"{colour}\1{_RESET}", rest)
        colour = _COLOURS.get(record.name, "\x1b[36m")
        front = rank_in_front()
        return f"{front}{colour}[{record.name}]{_RESET} {_BOLD}{first}{_RESET}{found}{rest}"


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self._plain = _Plain(_FORMAT)
        self._coloured = _Coloured()

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("this handler follows sys.stderr")

    def format(self, record: logging.LogRecord) -> str:
        return (self._coloured if coloured(self.stream) else self._plain).format(record)

    def emit(self, record: logging.LogRecord) -> None:
        with progress.aside():
            super().emit(record)


_TO_STANDARD_ERROR: Final = _ToStandardError()


def direct(root: logging.Logger, on: bool, file: str | None) -> None:
    """Sends the records of a logger to a file, to standard error, or nowhere; not elsewhere."""
    made: logging.Handler = _TO_STANDARD_ERROR
    if on and file is not None:
        made = logging.FileHandler(file, encoding="utf-8")
        made.setFormatter(_Plain(_FORMAT))
        made.set_name(_OURS)
    for handler in list(root.handlers):
        if handler is _TO_STANDARD_ERROR or handler.get_name() == _OURS:
            root.removeHandler(handler)
            handler.close()
    if on:
        root.addHandler(made)
    root.propagate = not on  # else a program with handlers of its own shows everything twice


_OURS: Final = "stator's file"
