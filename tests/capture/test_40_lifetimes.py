# mypy: ignore-errors
"""Answers that a cache keeps, and how long objects live."""

import functools
import weakref

import pytest
import torch

import stator

from .harness import Program, Programs, check, t
from .test_40_objects import agree

programs = Programs()
LOG = []


# ---------------------------------------------------------------------- functions with a cache


@functools.lru_cache
def settings():
    return {"n": 1}


@functools.lru_cache
def mask(n):
    return torch.ones(n)


@functools.lru_cache(None)
def pair(n, *, dtype):
    return torch.ones(n, dtype=dtype), torch.zeros(n)


def _empty():
    for each in (settings, mask, pair):
        each.cache_clear()


def _filled():
    settings()["n"] = 7
    mask(3).add_(5)
    pair(3, dtype=torch.float64)[0].add_(3)
    return (t(3),)


CACHES = {"filled": _filled}


@programs(
    lambda: (t(3),), ops=["ones", "add", "ones", "mul"], changes=CACHES, reset=_empty, dead=True
)
def tensors_of_a_cache(x):
    return (x + mask(3)) * pair(3, dtype=torch.float64)[0]


def test_what_a_cache_holds_is_an_object_of_the_world() -> None:
    def fn(x):
        settings()["n"] += 1
        mask(3).add_(1)
        return x * settings()["n"], mask(3), settings()

    _empty()
    _filled()
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = stator.compile(fn, backend=backend, fullgraph=True)
    for n in (8, 9):
        y, same, held = compiled(torch.ones(3))
        assert y.tolist() == [n] * 3
        assert same is mask(3)
        assert held is settings()
        assert mask(3).tolist() == [n - 1] * 3
    settings.cache_clear()
    with pytest.raises(stator.CaptureError, match="an object from a function with a cache is"):
        compiled(torch.ones(3))


def _change(x):
    mask(3).add_(1)
    return x + mask(3)


def _return(x):
    return x + 1, mask(3)[1:]


def _use(x):
    settings()["n"] += 1
    return x * settings()["n"], settings()


def _give(x):
    return x + 1, {"inside": settings()}


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (_change, "is changed or kept"),
        (_return, "is changed or kept"),
        (_use, "from a function with a cache is"),
        (_give, "from a function with a cache is kept"),
    ],
)
def test_new_answers_of_a_cache_that_can_be_changed_break(fn, reason) -> None:
    def world():
        return [settings(), mask(3)]

    agree(fn, lambda: (t(3),), reason, world=world, reset=_empty)


def test_answers_of_a_cache_are_kept_from_call_to_call() -> None:
    _empty()
    compiled = stator.compile(_use, backend="eager")
    assert [compiled(torch.ones(1))[0].item() for _ in range(3)] == [2, 3, 4]
    assert settings() == {"n": 4}


class Recipe:
    """As those of einops: made once, only read, and itself the key of another cache."""

    def __init__(self, steps):
        self.steps = steps


@functools.lru_cache
def prepared(pattern):
    return Recipe([len(word) for word in pattern.split()])


@functools.lru_cache(8)
def cooked(recipe, shape):
    return [shape[0] * step for step in recipe.steps], {"sum": sum(recipe.steps)}


def _forget():
    prepared.cache_clear()
    cooked.cache_clear()


def _warm():
    cooked(prepared("a bc"), (3,))
    return (t(3),)


def _spoilt():
    prepared("a bc").steps[0] = 5
    return (t(3),)


def _spoilt_later():
    cooked(prepared("a bc"), (3,))[0][1] = 100
    return (t(3),)


@programs(
    lambda: (t(3),),
    ops=["mul", "mul", "add"],
    changes={"warm": _warm, "spoilt": _spoilt, "spoilt later": _spoilt_later},
    reset=_forget,
    dead=True,
)
def answers_that_are_only_read(x):
    sizes, info = cooked(prepared("a bc"), tuple(x.shape))
    return x * sizes[0] * sizes[1] + info["sum"]


def test_answers_are_looked_for_only_when_the_cache_has_changed() -> None:
    def fn(x):
        return x * prepared("a b").steps[0]

    _forget()
    prepared("a b")
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert [compiled(x).tolist() for _ in range(3)] == [[1, 1]] * 3
    prepared("another")
    assert compiled(x).tolist() == [1, 1]
    assert len(compiled.entries()) == 1
    prepared("a b").steps[0] = 4
    assert compiled(x).tolist() == [4, 4]


# ---------------------------------------------------------------------- who lives how long


class Thing:
    pass


class Loud:
    def __del__(self):
        LOG.append("gone")


@programs(lambda: (t(3),), ops=["add"])
def weak_references_of_one_trace(x):
    thing = Thing()
    reference = weakref.ref(thing)
    alive = reference() is thing
    del thing
    return x + 1, alive, reference() is None


def _callback(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: LOG.append("dead"))
    del thing
    LOG.append("after")
    return x + 1, reference() is None


def _weak_table(x):
    table = weakref.WeakValueDictionary()
    thing = table["a"] = Thing()
    before = len(table)
    del thing
    return x + before, len(table)


def _finalized(x):
    thing = Thing()
    weakref.finalize(thing, LOG.append, "dead")
    del thing
    LOG.append("after")
    return x + 1


def _finalized_argument(x, thing):
    found = weakref.finalize(thing, LOG.append, "dead")
    return x + 1, found.alive, found.detach()[1:3], found.alive


def _weak_tensor(x):
    y = x + 1
    reference = weakref.ref(y)
    del y
    return x * 2, reference() is None


def _weak_function(x):
    def inner():
        return 1

    reference = weakref.ref(inner)
    del inner
    return x + 1, reference() is None


def _across_a_break(x):
    thing, other = Thing(), Thing()
    first, second = weakref.ref(thing), weakref.ref(other)
    stator.graph_break()
    del thing
    return x + 1, first() is None, second() is None


def _popped(x, things):
    reference = weakref.ref(things[0])
    things.pop()
    return x + 1, reference() is None


def _asked_for(x, things, reference):
    things.pop()
    return x + 1, reference() is None


def _thing_and_reference():
    thing = Thing()
    return t(3), [thing], weakref.ref(thing)


def _let_go(x, things):
    LOG.append(1)
    things.pop()
    LOG.append(2)
    return x + 1


def one():
    return (t(3),)


@pytest.mark.parametrize(
    ("fn", "make", "reason"),
    [
        (_weak_tensor, one, "object of type Tensor is still alive"),
        (_weak_function, one, "object of type function is still alive"),
        (_across_a_break, one, "asks for a graph break"),
        (_popped, lambda: (t(3), [Thing()]), "object of type Thing is still alive"),
        (_asked_for, _thing_and_reference, "object of type Thing is still alive"),
        (_let_go, lambda: (t(3), [Loud()]), "has a finalizer, is let go"),
    ],
)
def test_where_lives_differ_the_frame_runs_as_it_is(fn, make, reason) -> None:
    agree(fn, make, reason, world=lambda: LOG, reset=LOG.clear)


class Recurrent(torch.nn.Module):
    """A layer that refers weakly to its parameters, and state that changes."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(4, 4)
        self.calls, self.last = 0, [None]

    def forward(self, x):
        self.calls += 1
        self.last = [x]
        handle = self.layer.register_forward_hook(lambda *_: None)
        handle.remove()
        return self.layer(x)[0]


def test_weak_references_to_what_stays_do_not_matter() -> None:
    model = Recurrent()
    compiled = stator.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(3, 2, 4)
            assert torch.equal(compiled(x), model(x))
    assert model.calls == 4


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
