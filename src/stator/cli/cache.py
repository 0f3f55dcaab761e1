"""`stator cache`: what is in the cache, thrown away, or looked through.

In: the folder that `STATOR_CACHE_DIR` names, or the default. Out: one line for each entry; the exit
status is 1 if `verify` finds files that can't be used.
"""

import argparse
import os
import time
from pathlib import Path

from stator import config
from stator.store import files, folder
from stator.store.files import Stored
from stator.store.reasons import Damaged
from stator.store.world import difference, world


def main(given: argparse.Namespace) -> int:
    if given.dir:
        config.cache_dir = given.dir
    if given.what == "clear":
        print(f"{folder.clear()} files thrown away from {folder.folder()}")
        return 0
    return _list() if given.what == "ls" else _verify()


def _list() -> int:
    total = count = 0
    for path, found in folder.listed():
        size = path.stat().st_size
        total, count = total + size, count + 1
        print(f"{size / 1024:8.0f} KiB  {_told(found)}")
    print(f"{count} entries, {total / 1024 / 1024:.1f} MiB in {folder.folder()}")
    return 0


def _told(found: Stored | str) -> str:
    if isinstance(found, str):
        return f"can't be used: {found}"
    header = found.header
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(header.get("made", 0)))
    words = f"{header.get('operators')} operators, {header.get('guards')} guards"
    other = difference(header.get("world", {}), world(native=bool(header.get("native"))))
    use = f"; not usable now: {other}" if other else ""
    return f"{made}  {header.get('label')}: {words}{use}"


def _verify() -> int:
    wrong = count = 0
    for path in folder.all_files():
        count += 1
        problem = _problem(path)
        if problem is not None:
            wrong += 1
            print(f"{os.fspath(path)}: {problem}")
    print(f"{count - wrong} of {count} files are as they were written")
    return 1 if wrong else 0


def _problem(path: Path) -> str | None:
    """What is wrong with a file."""
    try:
        if path.suffix == folder.SUFFIX:
            files.read(path)
        else:
            files.check_native(path)
    except (Damaged, OSError, ValueError) as error:
        return str(error)
    return None
