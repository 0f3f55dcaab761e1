"""The cache on disk, and files that a program has loaded: where entries are looked for.

Stage: store. In: a `Key`, which says what function is called, how it is compiled, and where in it
an entry begins. Out: the entries that were stored under it. Anything that is wrong with a file is
a line in the log and a warning once; the program never fails over it.
"""

import contextlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch.distributed as dist

from stator import config
from stator.diagnostics import logs
from stator.store import files
from stator.store.digests import digest
from stator.store.files import Stored
from stator.store.reasons import Damaged

SUFFIX: Final = ".stator"
_LOG: Final = logging.getLogger("stator")
_NATIVE: Final = "native"
_PER_KEY: Final = 32
_told: Final[set[str]] = set()
_swept: Final[dict[str, float]] = {}
_SWEEP_EVERY: Final = 60.0
_ABANDONED: Final = 3600.0


@dataclass(frozen=True)
class Key:
    """What an entry is for, as data; equal keys may share entries."""

    function: tuple[str, str, str, str]
    """Module, what messages call it, name and digest of the code of the function that is called."""
    options: str
    points: tuple[Any, ...] = ()
    """Where it begins, if behind a break."""

    @property
    def text(self) -> str:
        return json.dumps([self.function, self.options, self.points])

    @property
    def name(self) -> str:
        return digest(self.text.encode("utf-8", "surrogatepass"))


LOADED: Final[dict[str, list[Stored]]] = {}
"""Entries that the program has loaded from files itself, by the texts of their keys."""


def say(text: str) -> None:
    """A line in the log `cache`."""
    if logs.on("cache"):
        logs.write("cache", text)


def warn(text: str) -> None:
    """Once for each text."""
    say(text)
    if text not in _told:
        _told.add(text)
        _LOG.warning("%s", text)


def folder() -> Path:
    """Where the cache is."""
    if config.cache_dir:
        return Path(config.cache_dir)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "stator"


def native_folder() -> Path:
    """Where native code is loaded from: with the cache, or for this process alone."""
    if config.cache:
        return folder() / _NATIVE
    return _own_folder()


_own: Final[list[tempfile.TemporaryDirectory[str]]] = []


def _own_folder() -> Path:
    if not _own:
        _own.append(tempfile.TemporaryDirectory(prefix="stator-"))
    return Path(_own[0].name)


def known(key: Key) -> bool:
    """Whether there can be entries."""
    return key.text in LOADED or is_on()


def is_on() -> bool:
    """Whether the cache is used: not where several ranks have to agree on what they compile."""
    return config.cache and not (dist.is_available() and dist.is_initialized())


def has(key: Key) -> bool:
    """Whether something is stored under a key."""
    if key.text in LOADED:
        return True
    return is_on() and bool(_newest_first(folder() / key.name[:2] / key.name))


def candidates(key: Key) -> Iterator[tuple[str, Stored]]:
    """The entries under a key, those that were used last first, each with a name."""
    for number, stored in enumerate(LOADED.get(key.text, ())):
        yield f"loaded {number}", stored
    if not is_on():
        return
    for path in _newest_first(folder() / key.name[:2] / key.name):
        found = _read(path)
        if found is None:
            continue
        if found.header.get("key") != key.text:
            warn(f"{path} is ignored: it is for something else")
            continue
        yield str(path), found


def _newest_first(place: Path) -> list[Path]:
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    found.append((entry.stat().st_mtime, Path(entry.path)))
    return [path for _, path in sorted(found, reverse=True)]


def _read(path: Path) -> Stored | None:
    try:
        (found,) = files.read(path)
    except FileNotFoundError:
        return None  # another process has thrown it away
    except (Damaged, OSError, ValueError) as error:
        warn(f"{path} is ignored: {error}")
        return None
    return found


def used(name: str) -> None:
    """An entry was used: it is thrown away later than others."""
    with contextlib.suppress(OSError, ValueError):
        os.utime(name)


def keep(key: Key, stored: Stored) -> Path | None:
    """Stores an entry; None if that is not possible, which is no error."""
    place = folder() / key.name[:2] / key.name
    try:
        data = files.packed([stored])
        path = place / f"{digest(data)}{SUFFIX}"
        files.write(path, data)
        for old in _newest_first(place)[_PER_KEY:]:
            old.unlink(missing_ok=True)
        _sweep()
    except OSError as error:
        warn(f"an entry is not stored in {place}: {error.strerror or error}")
        return None
    return path


def _sweep() -> None:
    """Now and then: what was used longest ago is thrown away, if there is too much."""
    root = str(folder())
    now = time.monotonic()
    if now - _swept.get(root, -_SWEEP_EVERY) < _SWEEP_EVERY:
        return
    _swept[root] = now
    sweep(config.cache_size << 20)


def sweep(limit: int) -> int:
    """Throws away files until there are no more bytes than that; how many files."""
    found = []
    for path in all_files():
        with contextlib.suppress(OSError):
            told = path.stat()
            found.append((told.st_mtime, told.st_size, path))
    total = sum(size for _, size, _ in found)
    gone = _left_behind()
    for _, size, path in sorted(found):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
        total -= size
    return gone


def _left_behind(age: float = _ABANDONED) -> int:
    """Throws away files that were begun so many seconds ago, by processes that have died."""
    gone = 0
    root = folder()
    for path in root.rglob(f"{files.BEGUN}*") if root.is_dir() else ():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime >= age:
                path.unlink()
                gone += 1
    return gone


def all_files() -> Iterator[Path]:
    """Entries and native code in the cache."""
    root = folder()
    if not root.is_dir():
        return
    for path in sorted(root.rglob("*")):
        if path.suffix in (SUFFIX, ".so") and path.is_file():
            yield path


def clear() -> int:
    """Throws all of it away; how many files there were."""
    count = 0
    for path in all_files():
        with contextlib.suppress(OSError):
            path.unlink()
            count += 1
    return count + _left_behind()


def listed() -> Iterator[tuple[Path, Stored | str]]:
    """Each entry in the cache, or what is wrong with its file."""
    for path in all_files():
        if path.suffix != SUFFIX:
            continue
        try:
            (found,) = files.read(path, headers=True)
            yield path, found
        except (Damaged, OSError, ValueError) as error:
            yield path, str(error)
