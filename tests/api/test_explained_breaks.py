# mypy: ignore-errors
"""`explain` counts the breaks that a program has, each once, and says what they depend on."""

import random
import tempfile
import time

import numpy as np
import pytest
import torch

import stator

X = torch.ones(4)


def at_random(x):
    if random.random() > 0.5:
        return x + 1
    return x - 1


def at_random_by_numpy(x):
    if np.random.rand() > 0.5:
        return x + 1
    return x - 1


def drawn_before(x):
    n = random.randint(1, 3)
    if n == 1:
        return x + 1
    return x - 1


def on_a_tensor(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def on_a_number(x):
    n = int(x.sum())
    if n > 2:
        return x * n
    return x


def on_a_list(x):
    if x.tolist()[0] > 0:
        return x + 1
    return x - 1


CAUSES = {
    at_random: "a branch depends on a random number",
    at_random_by_numpy: "a branch depends on a random number",
    drawn_before: "a branch depends on a random number: n = random.randint(1, 3)",
    on_a_tensor: "a branch depends on the value of a tensor",
    on_a_number: "a branch depends on a number that is read from a tensor: n = int(x.sum())",
    on_a_list: "a branch depends on a number that is read from a tensor",
}


@pytest.mark.parametrize("function", CAUSES, ids=lambda each: each.__name__)
def test_the_cause_is_told(function):
    explain = stator.explain(function)
    state = random.getstate(), np.random.get_state()
    try:
        for seed in range(8):
            random.seed(seed)
            np.random.seed(seed)
            told = explain(X if seed % 2 else -X)
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
    found = [*told.breaks, *told.careful_breaks]
    assert [each.reason for each in found] == [CAUSES[function]]
    assert found[0].line.startswith("if ")
    assert found[0].place.file == __file__
    assert "u0" not in str(found[0])


def waiting(x):
    y = x * 2
    time.sleep(0)
    return y + x.shape[0]


def test_a_recompile_adds_none():
    explain = stator.explain(waiting)
    counts = [explain(torch.ones(size)).break_count for size in (2, 3, 4, 5)]
    assert counts == [1, 1, 1, 1]


def in_a_loop(x):
    for n in range(3):
        x = x + n
        time.sleep(0)
    return x


def in_nested_loops(x):
    for n in range(2):
        for m in (1, 2):
            x = x * m + n
            time.sleep(0)
    return x


def over_pairs(x):
    for n, m in zip([1, 2], [3, 4], strict=True):
        x = x * m + n
        time.sleep(0)
    return x


@pytest.mark.parametrize("function", [in_a_loop, in_nested_loops, over_pairs])
def test_what_a_split_brings_about_is_none(function):
    told = stator.explain(function)(X)
    assert torch.equal(told.result, function(X))
    assert [each.line for each in told.breaks] == ["time.sleep(0)"]


def twice(x):
    return called(x) + called(x + 1)


def called(x):
    x = x + 1
    time.sleep(0)
    return x * 2


def test_a_place_that_is_reached_twice_is_one():
    assert stator.explain(twice)(X).break_count == 1


def two_in_a_line(x):
    time.sleep(0), time.sleep(0)
    return x + 1


def test_two_in_a_line_are_two():
    assert stator.explain(two_in_a_line)(X).break_count == 2


def on_two_tensors(x):
    x = x + 1 if x.sum() > 0 else x - 1
    return x * 2 if x.max() > 1 else x


def test_splits_of_careful_variants_are_told_apart():
    explain = stator.explain(on_two_tensors)
    assert explain(X).break_count == 0
    told = explain(-X)
    assert told.break_count == 0
    assert len(told.careful_breaks) == 1
    assert "1 more where a check failed" in repr(told)
    assert "break: a branch depends on the value of a tensor" in str(told)


def tried(x):
    try:
        time.sleep(0)
    except ValueError:
        return x
    return x + 1


def test_handlers_that_are_not_entered_add_none():
    assert stator.explain(tried)(X).break_count == 1


def test_counters_agree():
    stator.reset()
    compiled = stator.compile(in_a_loop, backend="eager")
    for size in (2, 3, 4):
        compiled(torch.ones(size))
    assert stator.counters()["graph_breaks"] == 1


def in_a_library(x):
    x = x + 1
    tempfile.mkdtemp()
    return x * 2


def test_a_line_that_calls_a_library_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = stator.explain(in_a_library)(X)
    assert {each.line for each in told.breaks} == {"tempfile.mkdtemp()"}
    assert len({each.id for each in told.breaks}) == told.break_count  # each reason once
    text = str(told.breaks[-1])
    assert text.index(__file__) < text.index("tempfile.py")
