# mypy: ignore-errors
"""Objects that are different in one call and the same in another: whatever the first changes, be it
for a moment only, the second must see."""

import collections

import pytest
import torch
from torch import nn

import stator

from .harness import Recording

PROGRAMS = []


def program(make):
    """`make(shared)` makes the first two arguments, which are one object, or use one."""
    return lambda fn: PROGRAMS.append(pytest.param(fn, make, id=fn.__name__))


def one_or_two(make):
    def pair(shared):
        first = make()
        return first, first if shared else make()

    return pair


class Box:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Other(Box):
    pass


def outcome(fn, args):
    result = fn(*args, torch.arange(3.0))
    return [value.tolist() if isinstance(value, torch.Tensor) else value for value in result]


@pytest.mark.parametrize(("fn", "make"), PROGRAMS)
@pytest.mark.parametrize("order", [(0, 0, 1, 0), (1, 1, 0, 1)], ids=["apart first", "one first"])
def test_program(fn, make, order) -> None:
    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    graphs = []
    for shared in (*order, *order):
        given, taken = make(shared), make(shared)
        assert outcome(compiled, taken) == outcome(fn, given)
        for left, right in zip(given, taken, strict=True):
            if not callable(left):
                assert contents(left) == contents(right)
        graphs.append(len(backend.graphs))
    assert graphs[0]
    assert graphs[len(order) :] == graphs[len(order) - 1 : -1]  # nothing is compiled again


def contents(value):
    value = vars(value) if isinstance(value, Box) else value
    return list(value.items()) if isinstance(value, dict) else list(value)


# ---------------------------------------------------------------------- changed, and put back


@program(one_or_two(lambda: [1]))
def appended_for_a_moment(a, b, x):
    a.append(1)
    n = len(b)
    a.pop()
    return (x * n,)


@program(one_or_two(lambda: [1, 2]))
def reversed_for_a_moment(a, b, x):
    a.reverse()
    n = b[0]
    a.reverse()
    return (x * n,)


@program(one_or_two(lambda: [1]))
def extended_in_place_for_a_moment(a, b, x):
    a += [5]
    n = len(b)
    del a[-1]
    return (x * n,)


@program(one_or_two(lambda: {}))
def a_key_for_a_moment(a, b, x):
    a["k"] = 1
    n = len(b)
    del a["k"]
    return (x * n,)


@program(one_or_two(lambda: {1}))
def a_member_for_a_moment(a, b, x):
    a.add(5)
    n = len(b)
    a.discard(5)
    return (x * n,)


@program(one_or_two(lambda: collections.deque([1, 2])))
def rotated_for_a_moment(a, b, x):
    a.rotate(1)
    n = b[0]
    a.rotate(-1)
    return (x * n,)


@program(one_or_two(lambda: Box(k=1)))
def an_attribute_for_a_moment(a, b, x):
    before, a.k = a.k, 5
    n = b.k
    a.k = before
    return (x * n,)


# ---------------------------------------------------------------------- dicts of attributes

# Where the two are one, the program is split.


def own_dict(shared):
    box = Box(v=1)
    return box, vars(box) if shared else {"v": 2}


@program(own_dict)
def written_as_a_dict(box, given, x):
    given["v"] = 5
    return x * box.v, given["v"]


@program(own_dict)
def written_as_an_attribute(box, given, x):
    box.v = 7
    return x * given["v"], list(given)


@program(own_dict)
def updated_as_a_dict(box, given, x):
    given.update(v=9)
    return (x * box.v,)


@program(own_dict)
def compared(box, given, x):
    return x * 2, given is box.__dict__, vars(box) is given


def one_dict(cls):
    def make(shared):
        first, second = Box(k=1), cls(k=1)
        if shared:
            second.__dict__ = first.__dict__
        return first, second

    return make


@program(one_dict(Box))
def two_objects_with_one_dict(a, b, x):
    a.k = 5
    return (x * b.k,)


@program(one_dict(Other))
def objects_of_two_classes_with_one_dict(a, b, x):
    a.k = 5
    return (x * b.k,)


def closures(shared):
    a = b = 1

    def put():
        nonlocal a
        a = 5

    def get():
        return a

    def other():
        return b

    return put, get if shared else other


@program(closures)
def cells(put, get, x):
    put()
    return (x * get(),)


def test_names_that_nobody_shares_cost_nothing() -> None:
    """A dict and the attributes of objects are only told apart where the same names are used."""

    def fn(boxes, given, x):
        given["loss"] = 1
        return x * sum(box.v for box in boxes)

    (guards,) = stator.explain(fn)([Box(v=1), Box(v=2)], {}, torch.ones(2)).guards
    assert not any("__dict__" in guard for guard in guards)
    (guards,) = stator.explain(fn)([Box(v=1), Box(v=2, loss=1)], {"v": 3}, torch.ones(2)).guards
    assert not any("__dict__" in guard for guard in guards)


def test_parameters_of_a_module_are_its_own() -> None:
    """A dict of the module's, given as an argument, is changed by the call."""

    def fn(m, given, x):
        given["0"] = nn.Tanh()
        return m(x)

    compiled = stator.compile(fn, backend="eager")
    for shared in (False, False, True):
        results = []
        for run in (fn, compiled):
            layers = nn.Sequential(nn.ReLU())
            results.append(run(layers, layers._modules if shared else {}, torch.arange(-2.0, 2.0)))
        assert torch.equal(*results)
