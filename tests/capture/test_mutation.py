# mypy: ignore-errors
"""Guards see every change of the world: programs of all files, mutated one thing at a time.

`STATOR_MUTATIONS=all` tries everything (about 18,000), a number so many; the normal run 300.
"""

import collections
import importlib
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from . import harness
from .harness import MismatchError, Program, t
from .mutation import Survey, World, chosen, mutations, places

WANTED = os.environ.get("STATOR_MUTATIONS", "300")
FILES = (
    *("test_02_control_flow", "test_03_calls", "test_04_containers", "test_05_objects"),
    *("test_08_tensors", "test_10_modules", "test_11_side_effects", "test_12_guards"),
    *("test_14_training", "test_16_library", "test_18_models", "test_56_backward"),
)


def programs() -> list[Program]:
    found = []
    for name in FILES:
        module = importlib.import_module(f"{__package__}.{name}")
        found += [program for program in module.programs if program.hits]
    return found


CHOSEN = chosen(programs(), None if WANTED == "all" else int(WANTED))


@pytest.mark.parametrize(
    "program, tried", CHOSEN, ids=lambda v: v.name if isinstance(v, Program) else f"{len(v)}"
)
def test_mutations(program, tried) -> None:
    unseen = Survey(program).unseen(tried)
    assert not unseen, f"{len(unseen)} of {len(tried)}\n" + "\n".join(unseen[:5])


def test_there_are_enough() -> None:
    total = sum(len(mutations(program)) for program in programs())
    assert total >= 5000
    chosen = sum(len(tried) for _, tried in CHOSEN)
    # The world grows while tests run, so all of it is not the same number at the end.
    assert chosen >= 5000 if WANTED == "all" else chosen == int(WANTED)


class Box:
    level = 1

    def __init__(self, n):
        self.n = n

    def scaled(self, x):
        return x * self.n


FACTOR = 2


def sample(x, box, items, table):
    return box.scaled(x) * FACTOR + items[0] + table["k"] + box.level


SAMPLE_PROGRAM = Program("sample", sample, lambda: (t(3), Box(3), [1, 2], {"k": 1}))


def test_places_are_found() -> None:
    world = World(SAMPLE_PROGRAM, SAMPLE_PROGRAM.given(1))
    found = {"".join(map(str, path)) for path, _ in places(world)}
    assert {"[argument 0]", "[global 'FACTOR']", "[argument 1].n", "[argument 2][item 0]"} <= found
    assert "[argument 1][class None][class attribute 'scaled']" in found


def test_every_kind_of_mutation_is_made() -> None:
    names = collections.Counter(mutation.name for mutation in mutations(SAMPLE_PROGRAM))
    for name in ("plus one", "other dtype", "appended", "a key removed", "__bool__ on the class"):
        assert names[name], name
    m = Program("module", lambda m, x: m(x), lambda: (nn.Linear(3, 3), t(3)))
    names = {mutation.name for mutation in mutations(m)}
    assert {"frozen", "a hook", "other mode", "a parameter"} <= names


class Deaf:
    """An engine that never looks again: what it computed first is what it always answers."""

    def __init__(self, fn):
        self.fn, self.answer = fn, None

    def __call__(self, *args, **kwargs):
        if self.answer is None:
            self.answer = self.fn(*args, **kwargs)
        return self.answer

    def statistics(self):
        return {"hits": 1, "misses": 1}


def test_a_deaf_engine_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(harness, "compile_with", lambda fn, **options: Deaf(fn))
    monkeypatch.setattr(harness, "reset_engine", lambda: None)
    survey = Survey(SAMPLE_PROGRAM)
    caught = []
    for mutation in mutations(SAMPLE_PROGRAM):
        try:
            survey.tries(mutation)
        except MismatchError:
            caught.append(mutation.name)
    assert {"plus one", "other dtype", "other method", "a key removed"} <= set(caught)


def test_mutations_are_undone() -> None:
    before = harness.describe([SAMPLE_PROGRAM.given(1).args, FACTOR, dict(vars(Box))])
    survey = Survey.__new__(Survey)
    survey.program, survey.skipped, survey.tried = SAMPLE_PROGRAM, [], 0
    survey.compiled = Deaf(sample)
    for mutation in mutations(SAMPLE_PROGRAM):
        try:
            survey.tries(mutation)
        except MismatchError:
            continue
    assert harness.describe([SAMPLE_PROGRAM.given(1).args, FACTOR, dict(vars(Box))]) == before
    assert torch.is_grad_enabled() and Path(__file__).exists()
