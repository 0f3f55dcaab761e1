"""The programs of the evaluator's curriculum, each split at some instructions."""

import importlib
import pkgutil
import zlib
from collections.abc import Iterator
from typing import Final

import pytest

from tests import evaluator
from tests.emit.splitting import observe_split
from tests.evaluator import oracle

STRIDES: Final = (7, 29, 101)
"""Which instructions: the remainders of a number that the program's name gives."""

LEFT_OUT: Final = frozenset({"test_11_async", "test_15_recursion", "test_16_threads_and_signals"})
"""Modules of programs without plain functions, and of programs that can't be abandoned."""

FRAMES: Final = "the frames that go on are others than those that began"
KEPT: Final = "a traceback from before the split keeps the evaluator's frames, and what they hold"
DIFFERENT: Final = {
    "traceback objects": FRAMES,
    "f_back chain up to main": FRAMES,
    "f_code and f_lasti": FRAMES,
    "a frame object is one object": FRAMES,
    "a frame object keeps the locals": FRAMES,
    "clearing a running frame": FRAMES,
    "inspect.currentframe": FRAMES,
    "inspect.getargvalues": "the code has other parameters",
    "writing to f_locals changes the variable": FRAMES,
    "locals twice": FRAMES,
    "exec does not make locals": FRAMES,
    "__del__ inside a handler leaves the exception alone": KEPT,
    "an exception kept by its name until the handler ends": KEPT,
    "an exception replaced by another": KEPT,
    "threads started by C": "its locks stay locked where it can't be split",
}

MODULES: Final = [
    found.name
    for found in pkgutil.iter_modules(evaluator.__path__)
    if found.name.startswith("test_") and found.name not in LEFT_OUT
]


def programs(name: str) -> Iterator[oracle.Program]:
    """The programs that a module of the curriculum runs."""
    for test in vars(importlib.import_module(f"tests.evaluator.{name}")).values():
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize" and mark.args[0] == "program":
                yield from mark.args[1]


@pytest.mark.parametrize("name", MODULES)
def test_some_splits(name: str) -> None:
    for program in programs(name):
        if program.name in DIFFERENT:
            continue
        native = oracle.observe(oracle.run_natively, program.prepare)
        number = zlib.crc32(program.name.encode())
        for count in sorted({number % stride for stride in STRIDES}):
            outcome = observe_split(program, count)
            if isinstance(outcome, dict):
                lines = oracle._differences(native, outcome)
                assert not lines, "\n".join([f"{program.name}, split after {count}", *lines])
