"""Modules of Python's own library that a call imports for the first time.

Stage: driver. In: why a trace was broken off. Out: whether a module was loaded for its sake, so
that the call can be traced again. A trace changes nothing, and loading a module does. But the call
itself is about to load it, and what these modules do when they are loaded nobody can see, except in
`sys.modules`: whether that is a moment earlier matters only to a program that has looked there.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

from stator.capture import Trace
from stator.diagnostics.catalogue import Import
from stator.guards import NoKey

# They show something, change the terminal or the interpreter, or are no library.
_SEEN: Final = frozenset(
    {
        *("__hello__", "__phello__", "antigravity", "idlelib", "lib2to3", "pty", "readline"),
        *("rlcompleter", "site", "sitecustomize", "test", "this", "turtle", "turtledemo"),
        *("tkinter", "usercustomize", "venv", "ensurepip", "msilib", "curses"),
    }
)


def load_library(trace: Trace) -> bool:
    """Loads the module without which a trace was broken off; False if it is not for us to load."""
    broken = trace.broken
    name = broken.module if isinstance(broken, Import) else ""
    top = name.partition(".")[0]
    if top not in sys.stdlib_module_names or top in _SEEN or top.startswith("_test"):
        return False
    if name in sys.modules or "__main__" in name or not _is_librarys(top):
        return False
    if any(type(each.check) is NoKey and each.check.key == name for each in trace.guards):
        return False  # the program has looked
    try:
        importlib.import_module(name)
    except Exception:  # the program will see it, too
        return False
    return True


def _is_librarys(name: str) -> bool:
    """Whether it is what the library has by that name: programs have files called `token.py`."""
    found = importlib.util.find_spec(name)
    origin = "" if found is None else found.origin or ""
    return origin in ("built-in", "frozen") or _LIBRARY in Path(origin).parents


_LIBRARY: Final = Path(os.__file__).parent
