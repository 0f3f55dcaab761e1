"""Compiled programs as files: `stator.save` (`loading.from_file` is the way back).

Stage: driver. In: what `stator.compile` has returned, after it was called. Out: a file
with all that was compiled for it, continuations included.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MethodType
from typing import Any

from stator._native._core import CompiledFunction
from stator.driver.cached import not_stored, stored_of
from stator.driver.compiler import Compiler
from stator.driver.ledger import Compilation
from stator.driver.modules import CompiledModule
from stator.driver.starting import compiler_of
from stator.store import files
from stator.store.folder import Key
from stator.store.reasons import CacheError, Unstorable


def save(path: str | os.PathLike[str], compiled: Callable[..., Any]) -> list[str]:
    """Writes what was compiled for a function or a module into one file, to be loaded elsewhere.

    Answers why some of it is not in the file: that is compiled again where the file is loaded. It
    is an error if nothing is in it.
    """
    first = _compiler(compiled)
    found, left = [], []
    for key, made in _entries(first):
        try:
            if made.stored is not None:
                found.append(made.stored)
                continue
            stored = stored_of(key, made, first.options)
        except Unstorable as error:
            not_stored(made.label, str(error))
            left.append(f"{made.label}: {error}")
            continue
        found.append(stored)
    if not found:
        why = "\n  ".join(left) or "nothing was compiled yet: call it first"
        raise CacheError(f"nothing of {first.label} can be saved:\n  {why}")
    files.write(Path(path), files.packed(found))
    return left


def _compiler(compiled: Any) -> Compiler:
    """The compiler behind what `stator.compile` has returned."""
    function = compiled
    if isinstance(compiled, CompiledModule):
        function = type(compiled).__dict__["__call__"].__get__(compiled)
    if isinstance(function, MethodType):
        function = function.__func__
    miss = compiler_of(function) if isinstance(function, CompiledFunction) else None
    if not isinstance(miss, Compiler):
        raise TypeError("stator.save() needs what stator.compile() has returned")
    return miss


def _entries(first: Compiler) -> Iterator[tuple[Key, Compilation]]:
    """What was compiled, with its keys; first that of the function itself."""
    done: set[int] = set()
    open_ = [first]
    while open_:
        compiler = open_.pop(0)
        ledger = compiler.ledger
        if id(ledger) in done:
            continue
        done.add(id(ledger))
        if compiler.key is not None:
            yield from ((compiler.key, made) for made in ledger.compilations)
        for each in ledger.continuations.all():
            behind = compiler_of(each)
            if isinstance(behind, Compiler):
                open_.append(behind)
