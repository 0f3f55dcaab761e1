# mypy: ignore-errors
"""The order of sets is that of eager: of the world's, of new ones, of those that are changed."""

import random
import string

import pytest
import torch

import stator
from stator._native import _core as core

STATE = {"set": set(), "frozen": frozenset()}


def words(draw, count):
    return ["".join(draw.choices(string.ascii_lowercase, k=3)) for _ in range(count)]


def grown(seed):
    draw = random.Random(seed)
    found = words(draw, draw.randrange(1, 20))
    made = set()
    for word in found:
        made.add(word)
    for word in draw.sample(found, len(found) // 3):
        made.discard(word)
    return made


def twin(given):
    made = set()
    core.set_take_over(made, given)
    return made


def walked(x):
    return x + 1, [*STATE["set"]], [*STATE["frozen"]], list(enumerate(STATE["set"]))


def changed(x, extra, gone):
    found = STATE["set"]
    for word in gone:
        found.discard(word)
    found.update(extra)
    copy = set(found)
    copy.add("zz")
    copy.discard("zz")
    both = found | {"q1", "q2"}
    return x + 1, [*found], copy, both, frozenset(both), {word for word in extra}, found


def taken(x, found):
    return x + 1, found.pop(), found.pop(), found


def orders(values):
    return [list(value) for value in values[1:] if type(value) is not str]


@pytest.mark.parametrize("seed", range(25))
def test_a_set_of_the_world_is_walked_in_its_order(seed) -> None:
    compiled = stator.compile(walked, backend="eager", fullgraph=True)
    x = torch.ones(2)
    STATE["set"] = grown(seed)
    STATE["frozen"] = frozenset(grown(seed)) | frozenset(grown(seed + 1))
    assert orders(compiled(x)) == orders(walked(x))
    # The same elements, in another order.
    draw = random.Random(seed)
    for kind in ("set", "frozen"):
        elements = list(STATE[kind])
        draw.shuffle(elements)
        STATE[kind] = type(STATE[kind])(elements)
        assert orders(compiled(x)) == orders(walked(x))


@pytest.mark.parametrize("seed", range(25))
def test_sets_that_are_changed_and_made(seed) -> None:
    compiled = stator.compile(changed, backend="eager", fullgraph=True)
    draw = random.Random(seed)
    start = grown(seed)
    extra, gone = words(draw, draw.randrange(9)), draw.sample(sorted(start), len(start) // 2)
    STATE["set"] = twin(start)
    expected = changed(torch.ones(2), extra, gone)
    eager = STATE["set"]
    STATE["set"] = twin(start)
    found = compiled(torch.ones(2), extra, gone)
    assert orders(found) == orders(expected)
    assert found[-1] is STATE["set"]
    # They also grow alike afterwards.
    for word in words(draw, 10):
        eager.add(word)
        STATE["set"].add(word)
        assert list(STATE["set"]) == list(eager)


@pytest.mark.parametrize("seed", range(10))
def test_what_pop_takes(seed) -> None:
    compiled = stator.compile(taken, backend="eager", fullgraph=True)
    start = grown(seed) | {"a", "b"}
    expected, found = taken(torch.ones(2), twin(start)), compiled(torch.ones(2), twin(start))
    assert found[1:3] == expected[1:3] and list(found[3]) == list(expected[3])


def test_a_set_in_a_loop_with_a_break() -> None:
    def fn(x, found):
        seen = []
        for word in found:
            seen.append(word)
            if len(seen) == 2:
                stator.graph_break()
            x = x + len(word)
        return x, seen

    compiled = stator.compile(fn, backend="eager")
    for seed in range(8):
        start = grown(seed) | {"a", "b", "c"}
        assert compiled(torch.ones(2), start)[1] == fn(torch.ones(2), start)[1]
