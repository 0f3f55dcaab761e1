"""Runs hostile programs in eager and compiled, and tells where they differ.

    python -m tests.hostile.compared FILE [NAME …]

Comes in: programs, as text. Each has a function `f` and a generator `drive(f, call)` that calls it
by `call(…)`, changes the world in between, and yields what is to be compared. Goes out: what
differs in results, strides, aliases, exceptions, output and random numbers, and warnings of ours.
"""

import contextlib
import difflib
import io
import multiprocessing
import random
import re
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy
import torch

import stator
from tests.capture.describe import describe
from tests.dynamic.harness import forget_marks

PROGRAMS: Final = Path(__file__).parent / "programs"
MODES: Final = tuple(
    (each, open_) for each in ("eager", "aot_eager") for open_ in (None, True, False)
)
_FAILURE: Final = re.compile(r"failed here|InternalError|failed to compile|has raised")
_LAYOUT: Final = re.compile(r"\(([^()]*)\)( requires_grad[^()]*?)strides=\(([^()]*)\)")
_NODE: Final = re.compile(r"grad_fn=(?!None)\S+")  # a backend's graph is a node of its own
_TITLE: Final = re.compile(r"^#=== (\w+)$", re.MULTILINE)
_HEAD: Final = """
import collections, contextlib, contextvars, copy, dataclasses, enum, functools, gc, itertools
import math, operator, random, re, sys, types, weakref
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import stator
"""


class Program(NamedTuple):
    name: str
    source: str


def programs(path: Path) -> list[Program]:
    _, *parts = _TITLE.split(path.read_text())
    found = [Program(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    assert len({each.name for each in found}) == len(found), f"a name is used twice in {path}"
    return found


def differences(program: Program, backend: str, dynamic: bool | None) -> Iterator[str]:
    wanted = _steps(program, lambda function: function)
    stator.reset()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = _steps(
            program, lambda function: stator.compile(function, backend=backend, dynamic=dynamic)
        )
    mode = f"{backend}, dynamic={dynamic}"
    for warning in warned:
        if _FAILURE.search(str(warning.message)):
            yield f"{mode}: {warning.message}"
    if len(wanted) != len(found):
        yield f"{mode}: {len(found)} steps of {len(wanted)}; the last one: {found[-1]}"
    for number, (expected, actual) in enumerate(zip(wanted, found, strict=False)):
        if backend != "eager":
            expected, actual = _comparable(expected), _comparable(actual)
        if expected != actual:
            lines = difflib.unified_diff(expected.split("\n"), actual.split("\n"), n=0, lineterm="")
            shown = "\n".join(list(lines)[2:])
            yield f"{mode}, step {number}:\n{shown}"
            break


def _steps(program: Program, made: Any) -> list[str]:
    module = types.ModuleType(f"hostile_{program.name}")
    sys.modules[module.__name__] = module
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    place = f"<{program.name}>"
    found: list[str] = []
    try:
        exec(compile(_HEAD + program.source, place, "exec"), module.__dict__)
        function = made(module.__dict__["f"])

        def call(*args: Any, **kwargs: Any) -> Any:
            return _called(place, function, args, kwargs)

        for step in module.__dict__["drive"](function, call):
            _forget_marks(step)
            text = _NODE.sub("grad_fn", "\n".join(describe(step)))
            drawn = torch.rand(()).item(), random.random(), numpy.random.rand()
            found.append(f"{text}\nthe next draws: {drawn}")
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        numpy.random.set_state(before[2])
        del sys.modules[module.__name__]
    return found


def _forget_marks(value: Any) -> None:
    if type(value) is dict:
        for each in value.values():
            _forget_marks(each)
    elif type(value) is list or type(value) is tuple:
        for each in value:
            _forget_marks(each)
    else:
        forget_marks(value)


def _called(place: str, function: Any, args: Any, kwargs: Any) -> Any:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            result: Any = ("returns", function(*args, **kwargs))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            passed = [each.name for each in frames if each.filename == place]
            behind = [type(error.__cause__).__name__, type(error.__context__).__name__]
            result = ("raises", type(error).__name__, str(error), passed, behind)
    return (*result, shown.getvalue())


def _comparable(text: str) -> str:
    """AOTAutograd lays out dimensions of size 0 and 1 in its own way."""

    def plain(match: re.Match[str]) -> str:
        small = any(size.strip() in ("0", "1") for size in match[1].split(","))
        return f"({match[1]}){match[2]}strides" if small else match[0]

    return _LAYOUT.sub(plain, text)


def checked(program: Program) -> tuple[Program, list[str]]:
    """All modes; what differs in several of them in the same way is told once."""
    torch.set_num_threads(1)
    told: dict[str, str] = {}
    for backend, dynamic in MODES:
        for each in differences(program, backend, dynamic):
            told.setdefault(each.partition(":")[2], each)
    return program, list(told.values())


def main(path: str, *names: str) -> int:
    wanted = [each for each in programs(Path(path)) if not names or each.name in names]
    wrong = 0
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for program, found in pool.imap(checked, wanted, 1):
            wrong += bool(found)
            for each in found:
                print(f"==== {program.name}: {each}")
            sys.stdout.flush()
    print(f"{len(wanted)} programs, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
