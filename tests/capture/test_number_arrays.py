# mypy: ignore-errors
"""`array.array`: made in the call, given to it, changed by it; its iterators and copies."""

import array
import copy
import pickle

import pytest
import torch

import stator

from .harness import Programs, check, t

programs = Programs()
KEPT = array.array("i", [1, 2, 3])


class Named(array.array):
    def total(self):
        return sum(self)


def reset():
    KEPT[:] = array.array("i", [1, 2, 3])


def ints():
    return t(2), array.array("i", [1, 2, 3])


def others(last):
    return lambda: (t(2), array.array("i", [1, 2, last]))


def doubles():
    return t(2), array.array("d", [1.0, 2.0, 3.0])


def empty():
    return t(2), array.array("i")


CHANGES = {"number": others(9), "kind": doubles}


@programs(ints, changes=CHANGES)
def reads(x, a):
    return x * sum(a) + a[0] + len(a), a[::-1], 2 in a


@programs(ints, changes={**CHANGES, "length": empty})
def unread(x, a):
    return x + 1, a


@programs(ints, changes=CHANGES)
def appends(x, a):
    a.append(4)
    a[0] = 7
    return x + a[-1]


@programs(ints, changes=CHANGES)
def extends_before_it_is_read(x, a):
    a.extend([5, 6])
    return x + len(a)


@programs(ints, changes=CHANGES)
def changes_in_place(x, a):
    a.reverse()
    a.byteswap()
    a *= 2
    a.insert(1, 3)
    a.remove(3)
    return x + a.index(a[2]), a.pop()


@programs(lambda: (t(2), Named("h", [1, 2])), changes={"item": lambda: (t(2), Named("h", [1, 5]))})
def of_a_subclass(x, a):
    a.name = "seen"
    a.append(9)
    return x + a.total(), Named("d", [0.5])


@programs(ints, changes={"nan": lambda: (t(2), array.array("d", [float("nan"), 0.0, -0.0]))})
def copies(x, a):
    return x, copy.copy(a), copy.deepcopy(a), a + a, a.tolist()


@programs(ints, changes=CHANGES, hits=False)  # a pickle's memo knows objects by their addresses
def pickles(x, a):
    return x, pickle.loads(pickle.dumps(a)), pickle.loads(pickle.dumps(iter(a), 2))


@programs(ints, changes=CHANGES)
def iterators(x, a):
    steps, spent = iter(a), iter(a)
    next(steps)
    return x * len(list(spent)), list(steps), list(spent), list(reversed(a))


@programs(ints, changes=CHANGES)
def an_iterator_that_leaves(x, a):
    steps = iter(a)
    next(steps)
    return list(zip(steps, (x, x + 1), strict=True))


@programs(lambda: (t(2),), reset=reset, world=lambda: [KEPT])
def a_global_one(x):
    KEPT.append(len(KEPT))
    return x + KEPT[-1]


@programs(
    lambda: (t(2), *[array.array("i", [1])] * 2), changes={"two": lambda: (*ints(), ints()[1])}
)
def the_same_one_twice(x, a, b):
    a.append(2)
    return x + len(b)


@programs(ints, raises=TypeError)
def a_wrong_item(x, a):
    a.append(5)
    a.append("text")
    return x


@programs(ints, changes=CHANGES)
def looks(x, a):
    return x + 1, a.itemsize, a.typecode


@pytest.mark.parametrize("program", programs, ids=str)
def test_number_arrays(program):
    check(program)


def test_iterators_that_leave_go_on():

    def half(x, a):
        steps = iter(a)
        next(steps)
        return x + 1, steps

    compiled = stator.compile(half, backend="eager", fullgraph=True)
    for numbers in ([1, 2, 3], [4], [5, 6]):
        for kind in "id":
            a, b = array.array(kind, numbers), array.array(kind, numbers)
            _, expected = half(torch.ones(1), a)
            _, found = compiled(torch.ones(1), b)
            b.append(8)
            a.append(8)
            assert list(found) == list(expected)
