# mypy: ignore-errors
"""`gc.collect()` in a call that is to be one graph: behind it, and before the next one."""

import gc
import weakref

import pytest
import torch

import stator

from .harness import reset_engine


@pytest.fixture(autouse=True, scope="module")
def _without_what_others_left():
    """Each collection would look at it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Node:
    pass


class Noisy:
    """Says when it is freed."""

    freed = 0

    def __del__(self):
        Noisy.freed += 1


def cycle(cls=Noisy):
    made = cls()
    made.me = made
    return weakref.ref(made)


def plain(x):
    y = x.sin()
    gc.collect()
    gc.collect(1)
    gc.collect(generation=0)
    return y + 1


def died_before(x):
    node = Node()
    seen = weakref.ref(node)
    del node
    gc.collect()
    return x + 1, seen() is None


def still_held(x):
    node = Node()
    holder = {"a": [node]}
    seen = weakref.ref(node)
    alias = weakref.proxy(node)
    node.value = 4
    del node
    gc.collect()
    return x + alias.value, seen() is holder["a"][0]


def called_back(x):
    said = []
    node = Node()
    seen = weakref.ref(node, said.append)
    gc.collect()
    first = len(said)
    del node
    gc.collect()
    return x + len(said), first, seen() is None


PROGRAMS = [plain, died_before, still_held, called_back]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured(fn):
    reset_engine()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for _ in range(3):
        assert repr(compiled(torch.ones(2))) == repr(fn(torch.ones(2)))
    assert len(stator.testing.compilations(compiled)) == 1


def freed_behind(x):
    gc.collect()
    return x + Noisy.freed, Noisy.freed


def freed_before(x):
    before = Noisy.freed
    gc.collect()
    return x + before, Noisy.freed


@pytest.mark.parametrize("fn", [freed_behind, freed_before], ids=lambda fn: fn.__name__)
def test_finalizers_of_the_world(fn):
    """What garbage from before the call does when it is freed is seen, in each call."""
    reset_engine()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for number in range(4):
        gc.collect()
        Noisy.freed = 0
        seen = cycle() if number != 1 else None
        result = compiled(torch.ones(1))
        assert result[1] == (number != 1)
        if fn is freed_behind:
            assert result[0].tolist() == [1.0 + (number != 1)]
        assert seen is None or seen() is None


def test_it_is_collected():
    reset_engine()
    compiled = stator.compile(plain, backend="eager", fullgraph=True)
    compiled(torch.ones(2))
    counted = []
    gc.callbacks.append(lambda phase, info: counted.append(info["generation"]))
    try:
        compiled(torch.ones(2))
    finally:
        gc.callbacks.pop()
    assert counted[-6:] == [2, 2, 1, 1, 0, 0]


def part_of_a_cycle(x):
    node = Node()
    node.me = node
    seen = weakref.ref(node)
    del node
    gc.collect()
    return x + 1, seen() is None


def part_of_a_cycle_by_proxy(x):
    node = Node()
    node.me = node
    alias = weakref.proxy(node)
    del node
    gc.collect()
    try:
        return x + 1, alias.me is None
    except ReferenceError as error:
        return x, str(error)


def let_go(x, items):
    items.clear()
    gc.collect()
    return x + Noisy.freed, Noisy.freed


def cleans_up(x):
    said = []

    def steps(keep):
        try:
            yield keep
        finally:
            said.append(1)

    keep = []
    keep.append(steps(keep))
    next(keep[0])
    del keep
    gc.collect()
    return x + len(said), said


def count(x):
    return x + (gc.collect() >= 0)


REFUSED = [part_of_a_cycle, part_of_a_cycle_by_proxy, cleans_up, count]


@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_what_a_collection_would_find(fn):
    reset_engine()
    with pytest.raises(stator.CaptureError):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(1))
    if fn is cleans_up:  # a continuation holds what it is given while it runs
        return
    compiled = stator.compile(fn, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(fn(torch.ones(1)))


def test_objects_of_the_world_that_are_let_go():
    reset_engine()
    made = Node()
    made.me, made.held = made, Noisy()
    with pytest.raises(stator.CaptureError):
        stator.compile(let_go, backend="eager", fullgraph=True)(torch.ones(1), [made])
    compiled = stator.compile(let_go, backend="eager")
    Noisy.freed = 0
    items = [made]
    del made
    assert compiled(torch.ones(1), items)[1] == 1 == Noisy.freed


def test_not_where_the_program_has_turned_collections_off():
    reset_engine()
    gc.disable()
    try:
        with pytest.raises(stator.CaptureError, match="collect"):
            stator.compile(plain, backend="eager", fullgraph=True)(torch.ones(1))
    finally:
        gc.enable()
    compiled = stator.compile(plain, backend="eager", fullgraph=True)
    compiled(torch.ones(1))
    gc.disable()
    try:
        with pytest.raises(stator.CaptureError, match="collect"):
            compiled(torch.ones(1))
    finally:
        gc.enable()


def test_a_program_that_can_be_split_is():
    reset_engine()
    compiled = stator.compile(plain, backend="eager")
    assert compiled(torch.ones(2)).tolist() == plain(torch.ones(2)).tolist()
    assert len(stator.testing.compilations(compiled)) == 1
    assert stator.testing.compilations(compiled)[0].broken is not None
