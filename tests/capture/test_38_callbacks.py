# mypy: ignore-errors
"""C code that reads objects or calls functions on its own: the tracer sees what is read."""

import functools
import itertools
import operator
import random
import types

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator

from .harness import Program, Programs, check, module, t

programs = Programs()
LOG = []


def logged(make, **claims):
    return programs(make, reset=LOG.clear, world=lambda: LOG, **claims)


class Item:
    def __init__(self, v):
        self.v = v
        self.inner = types.SimpleNamespace(q=[v])

    @property
    def loud(self):
        LOG.append("loud")
        return self.v

    def add(self, k):
        LOG.append(k)
        return self.v + k


# ---------------------------------------------------------------------- operator's getters


@logged(
    lambda: (t(3), [Item(3), Item(1)]),
    ops=["mul"],
    changes={"order": lambda: (t(3), [Item(1), Item(3)])},
)
def attributes_of_attributes(x, items):
    largest = max(items, key=operator.attrgetter("inner.q"))
    found = list(map(operator.attrgetter("loud", "inner.q"), items))
    least = sorted(items, key=operator.attrgetter("v"))[0]
    return x * least.v, largest is items[0], found


@logged(lambda: (t(3), Item(2), {"a": 1, "b": [2]}), ops=["mul"])
def getters_and_callers(x, item, table):
    operator.itemgetter("b")(table).append(3)
    called = operator.methodcaller("add", k=5)(item)
    for getter, of in [
        (operator.attrgetter("inner.zz"), item),
        (operator.itemgetter("zz"), table),
        (operator.methodcaller("zz"), item),
    ]:
        try:
            getter(of)
        except (AttributeError, KeyError) as error:
            LOG.append(str(error))
    return x * called, operator.itemgetter("a", "b")(table)


@programs(lambda: (t(3), Item(2)), raises=AttributeError)
def getter_that_raises(x, item):
    y = x + 1
    return y, operator.attrgetter("inner.zz")(item)


class Bound:
    def __init__(self):
        self._inner = types.SimpleNamespace(q=[1, 2])
        self._items = [3]

    q = property(operator.attrgetter("_inner.q"))
    items = property(operator.attrgetter("_items"))
    first = property(functools.partial(lambda k, self: self._items[k], 0))
    space = property(vars)
    missing = property(operator.attrgetter("_zz"))


@programs(lambda: (t(3), Bound()), ops=["mul"])
def properties_of_c(x, bound):
    bound.items.append(9)
    return x * bound.first, bound.q, bound.items, sorted(bound.space), hasattr(bound, "missing")


class Chance:
    __bool__ = random.random
    __len__ = [1, 2].__len__


def test_special_methods_that_are_c_functions_are_not_called_in_a_trace() -> None:
    def fn(x, chance):
        return x + 1 if chance else x

    before = random.getstate()
    with pytest.raises(stator.CaptureError, match="is a C function"):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(2), Chance())
    assert random.getstate() == before


# ---------------------------------------------------------------------- functions with a cache


@functools.lru_cache(None)
def counted(n):
    LOG.append(n)
    return n


@functools.lru_cache(None)
def counted_twice(n):
    return counted(n) + counted(n)


@functools.lru_cache(None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.lru_cache(None)
def listed(n):
    return (n, str(n))


def _clear():
    LOG.clear()
    for each in (counted, counted_twice, fibonacci, listed):
        each.cache_clear()


def test_what_a_function_with_a_cache_does_it_does_once() -> None:
    def fn(x, n):
        y = x.sin() + counted_twice(n)
        return (y * counted(n)).cos()

    def calls(run):
        _clear()
        found = [run(torch.ones(2), n).tolist() for n in (3, 3, 4)]
        return found, list(LOG), counted.cache_info(), counted_twice.cache_info()

    assert calls(stator.compile(fn, backend="eager")) == calls(fn)
    _clear()
    with pytest.raises(stator.CaptureError, match="with a cache changes objects"):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(2), 3)
    assert LOG == []


@programs(lambda: (t(3),), ops=["mul"], reset=_clear)
def answers_of_a_cache_are_the_same_object(x):
    return x * listed(3)[0], listed(3) is listed(3), listed(3) is listed(4), fibonacci(9)


# ---------------------------------------------------------------------- regions


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        LOG.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        LOG.append("backward")
        return gradient * 2


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.lin.register_full_backward_hook(lambda *_: LOG.append("hook"))

    def forward(self, x):
        return self.lin(x.sin()).cos()


def twice(x):
    def body(y):
        LOG.append("body")
        return y.sin().exp()

    return checkpoint(body, x * 2, use_reentrant=False)


SPLIT = {
    "an effect in a backward": (lambda x: Doubled.apply(x.sin()).cos(), "backward reads LOG"),
    "an effect in a checkpoint": (twice, "checkpointed function changes"),
    "a backward hook": (lambda x, m=module(Hooked): m(x), "full backward hooks"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_regions_that_do_more_than_compute_break(name) -> None:
    fn, reason = SPLIT[name]

    def call(run):
        LOG.clear()
        x = torch.full((2, 3), 0.5, requires_grad=True)
        y = run(x)
        before = list(LOG)
        y.sum().backward()
        return y.tolist(), x.grad.tolist(), before, list(LOG)

    compiled = stator.compile(fn, backend="eager")
    assert call(compiled) == call(compiled) == call(fn)
    with pytest.raises(stator.CaptureError, match=reason):
        call(stator.compile(fn, backend="eager", fullgraph=True))


class HookInside(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        handle = self.lin.register_forward_hook(lambda m, args, out: out + 5)
        y = self.lin(x)
        handle.remove()
        return y - self.lin(x)


def test_numbers_of_hooks_are_not_used_up_by_the_backend() -> None:
    model = HookInside()
    x = torch.ones(2, 3)
    compiled = stator.compile(model, backend="aot_eager", fullgraph=True)
    before = torch.utils.hooks.RemovableHandle.next_id
    assert torch.equal(compiled(x), model(x))
    assert torch.utils.hooks.RemovableHandle.next_id == before + 2


def test_an_iterator_of_the_world_is_not_advanced_by_a_key() -> None:
    def fn(x, counter):
        return x + 1, sorted([3, 1, 2], key=lambda _: next(counter))

    def call(run):
        counter = itertools.count()
        return run(torch.ones(2), counter)[1], next(counter)

    assert call(stator.compile(fn, backend="eager")) == call(fn)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
