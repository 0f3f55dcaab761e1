"""The journal: what stator does, told as events, to whoever listens.

Stage: all that compile. In: `write(kind, **fields)`, by those who know, who ask `on()` first. Out:
events, which are dicts that can be written as JSON, handed to each listener as they happen; and
the trace, a file of events (`STATOR_TRACE=dir`), which `read` reads, also later and elsewhere. The
kinds of events are in docs/report.md. When nobody listens nothing is computed.
"""

import json
import os
import platform
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
"""Of traces. A change that readers must know of makes it another."""
VARIABLE: Final = "STATOR_TRACE"

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
Event = dict[str, Any]
Listener = Callable[[Event], object]

_BEGAN: Final = time.perf_counter()
_BEGAN_TIME: Final = time.time()


class TraceError(Exception):
    """A trace can't be read; the text says in one line why, and what to do."""


# ---------------------------------------------------------------------- telling

_listeners: tuple[Listener, ...] = ()
_described: Final[set[object]] = set()


def on() -> bool:
    """Whether anyone listens."""
    return bool(_listeners)


def now() -> float:
    """Seconds since the journal's start: the `at` of an event."""
    return time.perf_counter() - _BEGAN


def listen(callback: Listener) -> Callable[[], None]:
    """Calls back for each event from now on, until what is returned is called.

    Events come in the thread in which they happen, outside of traces. A listener that raises is
    not called again.
    """
    global _listeners
    _listeners = (*_listeners, callback)
    _described.clear()  # the new one does not know what was described before

    def stop() -> None:
        global _listeners
        _listeners = tuple(each for each in _listeners if each is not callback)

    return stop


def write(kind: str, **fields: Any) -> None:
    """Tells all who listen."""
    if not _listeners:
        return
    thread = threading.current_thread().name
    event: Event = {"kind": kind, "at": now(), "pid": os.getpid(), "thread": thread, **fields}
    for listener in _listeners:
        try:
            listener(event)
        except Exception as error:
            _drop(listener, error)


def _drop(listener: Listener, error: Exception) -> None:
    """The program must go on: it is not about what stator tells."""
    global _listeners
    _listeners = tuple(each for each in _listeners if each is not listener)
    warnings.warn(f"stator's events are told no further, since {error!r}", stacklevel=4)


def first_time(key: object) -> bool:
    """Whether this was not yet described to all who listen."""
    known = key in _described
    _described.add(key)
    return not known


# ---------------------------------------------------------------------- writing traces


class TraceFile:
    """A listener that writes what it hears into a folder, one file per process.

    A process that was forked opens a file of its own with the first thing that it has to tell.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._opened()

    def __call__(self, event: Event) -> None:
        text = json.dumps(event, separators=(",", ":"), default=str) + "\n"
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._process = os.getpid()
            self._file = self._opened()
        with self._lock:
            _write(self._file, text)

    def _opened(self) -> int:
        # A number, not a file object: events come until the very end of the process, where nobody
        # could close one in time, and Python would warn of it.
        file = self._new()
        weakref.finalize(self, os.close, file).atexit = False
        _write(file, json.dumps(header(), default=str) + "\n")
        return file

    def _new(self) -> int:
        """A file that did not exist: another program in this folder may have had the number."""
        name, again = f"stator-{self._process}", 1
        while True:
            try:
                return os.open(self._folder / f"{name}.jsonl", _NEW, 0o666)
            except FileExistsError:
                again += 1
                name = f"stator-{self._process}-{again}"


def _write(file: int, text: str) -> None:
    left = text.encode()
    while left:
        left = left[os.write(file, left) :]


def header() -> Event:
    """The first event of a trace."""
    versions = {
        name: str(getattr(sys.modules.get(name), "__version__", "")) for name in ("stator", "torch")
    }
    return {
        "kind": "start",
        "format": FORMAT,
        "at": 0.0,
        **versions,
        "python": platform.python_version(),
        "argv": list(sys.argv),
        "pid": os.getpid(),
        "time": _BEGAN_TIME,
        **({"rank": int(rank)} if (rank := os.environ.get("RANK", "")).isdigit() else {}),
    }


def follow_environment() -> None:
    """Writes a trace if the environment asks for it."""
    folder = os.environ.get(VARIABLE, "")
    if folder:
        try:
            listen(TraceFile(folder))
        except OSError as error:  # must not keep the program from running
            warnings.warn(f"{VARIABLE}: no trace is written, since {error}", stacklevel=2)


os.register_at_fork(after_in_child=_described.clear)


# ---------------------------------------------------------------------- reading traces


def read(*paths: str | os.PathLike[str]) -> list[Event]:
    """The events in traces: files, or folders of them. Raises `TraceError`."""
    return [event for path in paths for file in _files(Path(path)) for event in _events(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.glob("stator-*.jsonl"))
        if not found:
            raise TraceError(
                f"{path}: no trace in this folder; run the program with {VARIABLE}={path}"
            )
        return found
    if not path.exists():
        raise TraceError(f"{path}: no such file; {VARIABLE}=dir makes a program write its trace")
    return [path]


def _events(file: Path) -> Iterator[Event]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TraceError(f"{file}: can't be read: {reason}") from None
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line) if line else None
        except ValueError:
            if number == len(lines) and number > 1:
                return  # the program was killed while it wrote this
            raise _no_trace(file, f"line {number} is no JSON") from None
        if number == 1:
            _check_header(file, event)
        if event is not None:
            if not isinstance(event, dict) or "kind" not in event:
                raise _no_trace(file, f"line {number} is no event")
            yield event


def _check_header(file: Path, event: Any) -> None:
    if not isinstance(event, dict) or event.get("kind") != "start":
        raise _no_trace(file, "it does not begin as one")
    version = event.get("format")
    if not isinstance(version, int):
        raise _no_trace(file, "it has no format")
    if version > FORMAT:
        raise TraceError(
            f"{file}: written by stator {event.get('stator')} in format {version}, and this one "
            f"reads up to {FORMAT}; upgrade stator"
        )


def _no_trace(file: Path, why: str) -> TraceError:
    return TraceError(f"{file}: no trace of stator, since {why}; name what {VARIABLE}=dir has made")
