# mypy: ignore-errors
"""Random programs with a break before each of their statements in turn.

STATOR_FUZZ says how many pairs of program and place are tried; STATOR_FUZZ_SEED where to begin.
"""

import contextlib
import difflib
import io
import os
import random
import sys
import warnings
from pathlib import Path

import pytest
import torch

import stator
from tests.capture.describe import Describer
from tests.capture.harness import user_frames

from .generate import Program, generate, with_break

PAIRS = int(os.environ.get("STATOR_FUZZ", "800"))
FIRST = int(os.environ.get("STATOR_FUZZ_SEED", "0"))
CHUNKS = 8
FILE = str(Path(__file__).with_name("generated.py"))


class Thing:
    scale = 2

    def __init__(self):
        self.value = None
        self.items = []

    def method(self, x, n):
        self.value = n
        return self.doubled(x) + n

    def doubled(self, x):
        return x * self.scale


def scaled(x, *, by=1):
    return x * by


def run(fn, namespace, n):
    """What a call does, as lines."""
    log, thing = [], Thing()
    namespace |= {"LOG": log, "COUNT": 0, "OBJECT": thing}
    x = torch.tensor([0.5, -1.5])
    printed, error, result = io.StringIO(), None, None
    with contextlib.redirect_stdout(printed):
        try:
            result = fn(x, n)
        except Exception as raised:
            if type(raised).__module__.startswith("stator"):
                raise
            error = raised
    describer = Describer()
    lines = describer.describe("result ", result)
    if error is not None:
        lines += describer.describe("raised ", error)
        lines += [f"  at {file}:{line} in {name}" for file, line, name in user_frames(error)]
    lines += describer.describe("world ", [x, log, thing, namespace["COUNT"]])
    lines += [f"printed {line}" for line in printed.getvalue().splitlines()]
    lines.append(f"grad {torch.is_grad_enabled()} handled {sys.exc_info()[0]}")
    return lines


class Manager:
    """A user's context manager, which may swallow exceptions."""

    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return self.swallow


def problem(program: Program, numbers=(2, 2, 3)):
    """How a compiled program differs from eager; None if it doesn't.

    `numbers` are the arguments of the calls; the first two are the same: one compiles, one hits.
    """
    namespace = {
        "__name__": "generated",
        "torch": torch,
        "stator": stator,
        "contextlib": contextlib,
        "Manager": Manager,
        "scaled": scaled,
    }
    exec(compile(program.text, FILE, "exec", dont_inherit=True), namespace)
    main = namespace["main"]
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    stator.reset()
    compiled = stator.compile(main, backend=backend)
    for number, n in enumerate(numbers):
        wanted = run(main, namespace, n)
        before = len(graphs), len(compiled.miss.ledger.continuations)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = run(compiled, namespace, n)
            except (stator.InternalError, UserWarning) as error:
                return f"call {number}: {error!r}"
        if found != wanted:
            diff = difflib.unified_diff(wanted, found, "eager", "compiled", "", "", 1)
            return "\n".join([f"call {number} differs", *diff])
        if number == 1 and before != (len(graphs), len(compiled.miss.ledger.continuations)):
            return f"call {number} was compiled anew"
    return None


def pairs(count):
    """That many programs and places, the same in each run."""
    seed, found = FIRST, 0
    while found < count:
        for place in range(len(generate(seed).places())):
            found += 1
            yield seed, place
        seed += 1


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_break_anywhere_changes_nothing(chunk):
    for number, (seed, place) in enumerate(pairs(PAIRS)):
        if number % CHUNKS != chunk:
            continue
        program = with_break(seed, place)
        text = program.text
        # Another number compiles all of it again: in every eighth pair is enough.
        found = problem(program, (2, 2) if number % 8 else (2, 2, 3))
        if found is not None:
            small = program.smaller(lambda program: problem(program) is not None)
            pytest.fail(f"{small.text}\n{problem(small)}\n(seed {seed}, place {place}):\n{text}")


def test_programs_do_something():
    """What is generated runs in eager, and mostly to its end."""
    ended = 0
    for seed in range(100):
        text = generate(seed).text
        assert compile(text, FILE, "exec")
        ended += "return" in text
    assert ended == 100
    assert len({generate(seed).text for seed in range(100)}) == 100
    assert generate(7).text == generate(7).text
    assert random.random() is not None
