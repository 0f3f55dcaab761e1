"""Files that a program only reads: their contents are part of the world, and guarded.

Stage: capture. In: `open` of a regular file, for reading. Out: a file object of the same type over
the bytes that are there now. The guard is that the same bytes are there when the call is made
again: they are read and compared, so that the answer is never wrong. A file that was found changed
is not captured a second time.

All that opens files in another way, and large files, are a `Break`. So is a file that is not closed
in the call, and what only a file of the system has: its number, its buffer.
"""

import io
import locale
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import by_contract
from stator.capture.library.system_questions import may_have_written
from stator.diagnostics.catalogue import InputOutput
from stator.guards import Callback, Fixed
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_LARGEST: Final = 1 << 20  # bytes, which are compared in each call
_MODES: Final = {"r": False, "rt": False, "tr": False, "rb": True, "br": True}
_TEXT: Final = ("encoding", "errors", "newline")
_PARAMETERS: Final = ("file", "mode", "buffering", *_TEXT, "closefd", "opener")
_PLAIN: Final = {"buffering": -1, "closefd": True, "opener": None}
# What is done with the bytes alone.
_METHODS: Final = frozenset(
    {
        *("read", "readall", "readline", "readlines", "read1", "peek", "seek", "tell", "close"),
        *("isatty",),
        *("readable", "writable", "seekable", "__iter__", "__next__", "__enter__", "__exit__"),
    }
)
_OF_THE_SYSTEM: Final = frozenset({"buffer", "raw", "fileno", "detach", "__dict__", "_CHUNK_SIZE"})
_changed: Final[set[str]] = set()  # paths whose files were found changed


class _Contents(io.BytesIO):
    """The bytes of a file, which has a name."""

    name: str


class _Same:
    """Whether a file has the same bytes, which are to be decoded in the same way."""

    def __init__(self, path: str, contents: bytes) -> None:
        self._path, self._contents = path, contents
        self._encoding = locale.getencoding()

    def __call__(self, _: object) -> bool:
        try:
            with io.open(self._path, "rb") as file:  # noqa: UP020 - the program may replace `open`
                found = file.read(len(self._contents) + 1)
        except OSError:
            return False
        if found != self._contents:
            _changed.add(self._path)
        return found == self._contents and locale.getencoding() == self._encoding


class Files:
    """The files of one trace."""

    def __init__(self) -> None:
        self.opened: dict[int, Any] = {}
        self._read: dict[str, bytes] = {}

    def contents(self, calls: "Calls", path: str) -> bytes | None:
        """The bytes of a file, guarded; None if it is not for us to read."""
        if path in self._read:
            return self._read[path]
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST or path in _changed:
                return None
            with io.open(path, "rb") as file:  # noqa: UP020
                contents = file.read()
        except (OSError, ValueError):
            return None
        if len(contents) != found.st_size:  # made up by the system when it is read
            return None
        same = Callback(_Same(path, contents), f"the file {path} as it was")
        calls.world.guard(Fixed(io.open, "open"), same)
        self._read[path] = contents
        return contents

    def check(self) -> None:
        """The trace has ended: files that are still open would be closed at another time."""
        if not all(file.closed for file in self.opened.values()):
            raise InputOutput("a file is opened, and not closed")

    def may_run(self, file: Any, method: str, args: list[Any]) -> bool:
        """Whether a method of a file is about the bytes that have been read."""
        if id(file) not in self.opened or method not in _METHODS:
            return False
        return all(CONSTANTS.holds(type(value)) for value in args)

    def attribute(self, frame: Frame, file: Any, name: str) -> None:
        """The program reads an attribute of a file."""
        if id(file) in self.opened and name in _OF_THE_SYSTEM:
            raise InputOutput(f"{name} of a file is used")


def _open(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    given: dict[str, Any] = {"mode": "r", **_PLAIN, **dict.fromkeys(_TEXT)}
    given |= dict(zip(_PARAMETERS, args, strict=False))
    plain = len(args) <= len(_PARAMETERS) and not (kwargs.keys() - set(_PARAMETERS))
    given |= kwargs
    values = [given[name] for name in ("mode", *_TEXT, *_PLAIN)]
    plain = plain and "file" in given and all(CONSTANTS.holds(type(each)) for each in values)
    unbuffered = given["buffering"] == 0 and _MODES.get(given["mode"]) is True
    buffering = {"buffering": 0} if unbuffered else {}
    plain = plain and all(given[name] == value for name, value in (_PLAIN | buffering).items())
    if not plain or given["mode"] not in _MODES or may_have_written(calls):
        return by_contract(calls, frame, function, args, kwargs)
    path = given["file"]
    if type(path) is not str:
        path = core.call(frame, os.fspath, [path], None)
    contents = calls.files.contents(calls, path) if type(path) is str else None
    if contents is None:
        return by_contract(calls, frame, function, args, kwargs)
    file: Any = _unbuffered(path, contents) if unbuffered else _buffered(path, contents)
    text = {name: given[name] for name in _TEXT}
    if not _MODES[given["mode"]]:
        try:
            file = io.TextIOWrapper(file, **text)
        except (LookupError, ValueError, TypeError) as error:
            core.raise_user(error)
        file.mode = given["mode"]
    elif any(value is not None for value in text.values()):
        return by_contract(calls, frame, function, args, kwargs)
    calls.files.opened[id(file)] = file
    return file


def _buffered(path: str, contents: bytes) -> io.BufferedReader:
    raw = _Contents(contents)
    raw.name = path
    return io.BufferedReader(raw)


def _unbuffered(path: str, contents: bytes) -> io.FileIO:
    """A file in memory: one of this type needs the system."""
    number = os.memfd_create("contents")
    os.write(number, contents)
    os.lseek(number, 0, os.SEEK_SET)
    file: Any = io.FileIO(number, "rb")
    file.name = path
    return file  # type: ignore[no-any-return]


FILES: Final[dict[int, Handler]] = {id(io.open): _open}
