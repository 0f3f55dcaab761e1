"""Files of the cache: what is in one, who may have written it, and how it is replaced.

Stage: store. A file is a line of text, which says what it is and the digest of all that follows; a
line of JSON, the header; one of JSON, the body; then native code. It is written beside its place
and renamed, so a reader sees all of a file or none of it; nothing is locked.

A file is trusted if this user alone can have written it: it belongs to the user (or to root), and
neither it nor its folder can be written by others. Otherwise it is refused, unless it is signed
with the key that `STATOR_CACHE_KEY` holds.
"""

import hashlib
import hmac
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from stator.store.reasons import Damaged

MAGIC: Final = "stator-cache"
FORMAT: Final = 1
KEY: Final = "STATOR_CACHE_KEY"
BEGUN: Final = ".new-"
"""How the names of files begin that are being written."""
_LARGEST: Final = 2 << 30


@dataclass
class Stored:
    """One entry as data."""

    header: dict[str, Any]
    """What it is for and what it depends on; read before anything else is."""
    body: list[Any]
    """Rows, and what of them is what (`entry.py`)."""
    blobs: list[bytes] = field(default_factory=list)
    """Native code."""


def packed(entries: Sequence[Stored]) -> bytes:
    """Entries as the contents of a file."""
    parts = []
    for each in entries:
        lengths = [len(blob) for blob in each.blobs]
        head = json.dumps([each.header, lengths], separators=(",", ":"), sort_keys=True)
        body = json.dumps(each.body, separators=(",", ":"))
        parts += [head.encode(), b"\n", body.encode(), b"\n", *each.blobs, b"\n"]
    data = b"".join(parts)
    line = f"{MAGIC} {FORMAT} {len(entries)} {_digest(data)} {_signature(data)}\n"
    return line.encode() + data


def unpacked(data: bytes, *, headers: bool = False) -> list[Stored]:
    """The entries of a file; raises Damaged. With `headers`, no more than these."""
    line, _, rest = data.partition(b"\n")
    try:
        magic, form, count, told, signature = line.decode("ascii").split(" ")
    except ValueError:
        raise Damaged("not a file of the cache") from None
    if magic != MAGIC:
        raise Damaged("not a file of the cache")
    if form != str(FORMAT):
        raise Damaged(f"written in format {form[:20]}, not {FORMAT}")
    if not hmac.compare_digest(told, _digest(rest)):
        raise Damaged("its contents are not what was written")
    key = os.environ.get(KEY)
    if key and not hmac.compare_digest(signature, _signature(rest)):
        raise Damaged("it is not signed with the key of this program")
    try:
        return [*_entries(rest, int(count), headers)]
    except (ValueError, IndexError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


def _entries(rest: bytes, count: int, headers: bool) -> list[Stored]:
    found, start = [], 0
    for _ in range(count):
        end = rest.index(b"\n", start)
        header, lengths = json.loads(rest[start:end])
        start, end = end + 1, rest.index(b"\n", end + 1)
        body = [] if headers else json.loads(rest[start:end])
        start, blobs = end + 1, []
        for length in map(int, lengths):
            if length < 0:
                raise Damaged("no length")
            blobs.append(rest[start : start + length])
            start += length
        start += 1
        found.append(Stored(dict(header), body, [] if headers else blobs))
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _signature(data: bytes) -> str:
    key = os.environ.get(KEY)
    return hmac.new(key.encode(), data, hashlib.sha256).hexdigest() if key else "-"


# ---------------------------------------------------------------------- trust


def check_trusted(path: Path) -> None:
    """Raises Damaged if somebody else can have written a file."""
    if os.environ.get(KEY) or os.name != "posix":
        return
    for each in (path, path.parent):
        found = os.stat(each)
        if found.st_uid not in (os.getuid(), 0):
            raise Damaged(f"{each} belongs to somebody else")
        sticky = each is not path and found.st_mode & stat.S_ISVTX
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
            raise Damaged(f"others may write to {each}")


def read(path: Path, *, headers: bool = False) -> list[Stored]:
    """The entries of a file that is to be trusted; raises Damaged or OSError."""
    check_trusted(path)
    if path.stat().st_size > _LARGEST:
        raise Damaged("it is too large")
    return unpacked(path.read_bytes(), headers=headers)


def read_open(file: IO[bytes]) -> list[Stored]:
    """The same of a file that is open: what is open must be what lies under its name."""
    if not os.environ.get(KEY):
        name = getattr(file, "name", None)
        if not isinstance(name, str):
            raise Damaged("it is neither a file on disk nor signed")
        check_trusted(Path(name))
        one, other = os.fstat(file.fileno()), os.stat(name)
        if (one.st_dev, one.st_ino) != (other.st_dev, other.st_ino):
            raise Damaged("another file has its name")
    return unpacked(file.read())


def write(path: Path, data: bytes) -> None:
    """Puts a file in its place, all of it at once; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(prefix=BEGUN, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_native(path: Path) -> None:
    """Raises Damaged if a native library is not what its name says, or not to be trusted."""
    check_trusted(path)
    if not _digest(path.read_bytes()).startswith(path.stem):
        raise Damaged("its contents are not what was written")


def native_file(data: bytes, folder: Path) -> Path:
    """The file of a native library, which is named after its contents."""
    told = _digest(data)
    path = folder / f"{told[:40]}.so"
    try:
        check_trusted(path)
        if _digest(path.read_bytes()) == told:
            return path
    except FileNotFoundError:
        pass
    write(path, data)
    path.chmod(0o500)
    check_trusted(path)
    return path
