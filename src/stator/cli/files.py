"""Files that the user names on the command line: checked before anything runs."""

import os
from pathlib import Path

from stator.cli.errors import UsageError


def writable(name: str) -> Path:
    """A file that can be written."""
    path = Path(name).absolute()
    if path.is_dir():
        raise UsageError(f"{name} is a folder; name a file, such as {Path(name) / 'report.html'}")
    if not path.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {path.parent}; make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{name}: can't be written; choose another place")
    return path


def folder(name: str) -> Path:
    """A folder that exists from now on."""
    path = Path(name).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; name a folder that can be written") from None
    return path
