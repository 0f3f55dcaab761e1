# mypy: ignore-errors
"""Order independence: whichever path is called first, the same graphs and the same results."""

import itertools

import pytest
import torch

import stator
from tests.capture.describe import describe
from tests.capture.harness import Recording

PROGRAMS = []


def paths(*calls, speculated=False):
    """`speculated`: the first graph is for the side that was seen first.

    It is given up when it was wrong twice, and what it was for is compiled behind a jump.
    """

    def add(fn):
        PROGRAMS.append(pytest.param(fn, calls, speculated, id=fn.__name__))
        return fn

    return add


def positive():
    return torch.ones(3)


def negative():
    return -torch.ones(3)


def zero():
    return torch.zeros(3)


@paths(lambda: (positive(),), lambda: (negative(),), speculated=True)
def branch(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@paths(lambda: (positive(),), lambda: (negative(),), lambda: (zero(),), speculated=True)
def three_branches(x):
    if x.sum() > 0:
        y = x * 2
    elif x.sum() < 0:
        y = x * 3
    else:
        y = x - 1
    return y + x


@paths(lambda: (positive(), True), lambda: (positive(), False))
def break_on_one_path(x, flag):
    y = x * 2
    if flag:
        stator.graph_break()
        y = y + 1
    return y.sin()


@paths(lambda: (positive(), 0), lambda: (positive(), 1), lambda: (positive(), 2))
def breaks_in_different_places(x, n):
    y = x * 2
    if n == 1:
        stator.graph_break()
    y = y + 1
    if n == 2:
        stator.graph_break()
    return y * 3


@paths(lambda: (positive(),), lambda: (torch.ones(2, 3),), lambda: (torch.ones(3).double(),))
def other_tensors(x):
    y = x * 2
    stator.graph_break()
    return y + 1


@paths(lambda: (positive(), [1]), lambda: (positive(), (1, 2)), lambda: (positive(), {}))
def other_types(x, items):
    y = x * len(items)
    stator.graph_break()
    if type(items) is list:
        items.append(2)
    return y + len(items)


@stator.disable
def check_sign(x):
    if x.sum() < 0:
        raise ValueError("negative")
    return x


@paths(lambda: (positive(),), lambda: (negative(),))
def raised_on_one_path(x):
    y = x * 2
    try:
        z = check_sign(y)
    except ValueError:
        z = y * -1
    return z + 1


@paths(lambda: (positive(),), lambda: (negative(),))
def raised_out_of_one_path(x):
    y = x * 2
    z = check_sign(y)
    return z + 1


def inner(x, n):
    y = x * 2
    if n:
        stator.graph_break()
    return y + n


@paths(lambda: (positive(), 0), lambda: (positive(), 1), lambda: (positive(), 2))
def deep_path(x, n):
    return inner(inner(x, 0), n) * 2


@paths(lambda: (positive(), 1), lambda: (positive(), 2), lambda: (positive(), 3))
def other_lengths_of_a_loop(x, n):
    items = [x] * n
    for item in items:
        x = x + item
        stator.graph_break()
    return x


@paths(lambda: (positive(), None), lambda: (positive(), torch.ones(3)))
def optional_argument(x, mask):
    if mask is not None:
        x = x * mask
        stator.graph_break()
    return x + 1


@paths(
    lambda: (positive(), True),
    lambda: (negative(), True),
    lambda: (positive(), False),
    speculated=True,
)
def branch_of_a_value_behind_a_flag(x, flag):
    if flag and x.sum() > 0:
        return x * 2
    y = x + 1
    stator.graph_break()
    return y - 2


def outcome(fn, make):
    args = make()
    try:
        result = fn(*args)
    except ValueError as error:
        return [f"raised {error}", *describe(args)]
    return describe([result, args])


@pytest.mark.parametrize(("fn", "calls", "speculated"), PROGRAMS)
def test_the_order_of_calls_does_not_matter(fn, calls, speculated):
    wanted = [outcome(fn, make) for make in calls]
    seen = []
    for order in itertools.permutations(range(len(calls))):
        stator.reset()
        backend = Recording()
        compiled = stator.compile(fn, backend=backend, dynamic=False)
        for _ in range(4 if speculated else 2):
            for index in order:
                assert outcome(compiled, calls[index]) == wanted[index], f"call {index} in {order}"
        seen.append(sorted(backend.codes))
        count = len(backend.codes)
        for index in order:
            assert outcome(compiled, calls[index]) == wanted[index], f"call {index} in {order}"
        assert len(backend.codes) == count, f"something was compiled anew in {order}"
        assert count <= 3 * len(calls), f"too much was compiled in {order}"
    if not speculated:
        assert all(codes == seen[0] for codes in seen), "other graphs in another order"
