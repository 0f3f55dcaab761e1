"""Warnings that C code gives: at every call, as the filters of that call say.

Programs × filters: results, warnings and exceptions of several calls, against eager.
"""

# mypy: ignore-errors

import math
import sys
import unittest
import warnings

import pytest
import torch

import stator


class Converted:
    def __int__(self):
        return True

    def __index__(self):
        return True


class Truncated:
    def __trunc__(self):
        return 3


class Own(float):
    pass


class Floating:
    def __float__(self):
        return Own(1)


CONVERTED, TRUNCATED, FLOATING = Converted(), Truncated(), Floating()


def negated(x):
    return x + 1, not NotImplemented


def branched(x):
    if NotImplemented:
        return x + 1
    return x


def asked(x):
    return x + 1, bool(NotImplemented)


def all_of(x):
    return x + 1, all([NotImplemented])


def either(x):
    return x + 1, NotImplemented or 3, NotImplemented and 4


def inverted(x):
    return x + 1, ~(x.dim() == 1)


def as_int(x):
    return x + 1, int(CONVERTED)


def as_index(x):
    return x + 1, [1, 2][CONVERTED], range(CONVERTED), "%d" % CONVERTED


def truncated(x):
    return x + 1, int(TRUNCATED) if sys.version_info < (3, 14) else 3


def as_float(x):
    return x + 1, float(FLOATING), math.sqrt(FLOATING)


def collected(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        truth = bool(NotImplemented)
    return x + 1, truth, [str(each.message) for each in found]


def collected_by_a_branch(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        x = x + 1 if NotImplemented else x
    return x, [str(each.message) for each in found]


def expected(x):
    case = unittest.TestCase()
    with case.assertWarns(DeprecationWarning):
        case.assertTrue(NotImplemented)
    return x + 1


def raised(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return x + 1, bool(NotImplemented)
        except DeprecationWarning as warning:
            return x - 1, str(warning)


PROGRAMS = [
    *(negated, branched, asked, all_of, either, inverted, as_int, as_index, truncated, as_float),
    *(collected, collected_by_a_branch, expected, raised),
]
OWN_FILTERS = [collected, collected_by_a_branch, expected, raised]
pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="the truth of NotImplemented is an error"
)


def calls(function, actions):
    found = []
    for action in actions:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter(action)
            try:
                result = repr(function(torch.ones(2)))
            except Exception as error:
                result = repr(error)
        found.append((result, [(str(each.message), each.lineno) for each in given]))
    return found


@pytest.mark.parametrize("action", ["always", "error", "ignore", "default"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program, action) -> None:
    stator.reset()
    # `assertWarns` looks at all modules, and parts of torch warn when they are first looked at.
    calls(program, ["ignore"])
    compiled = stator.compile(program, backend="eager")
    assert calls(compiled, [action] * 3) == calls(program, [action] * 3)


@pytest.mark.parametrize("program", [negated, branched, asked, either, inverted, *OWN_FILTERS])
def test_other_filters_in_each_call(program) -> None:
    actions = ["ignore", "always", "error", "always", "ignore", "error"]
    stator.reset()
    compiled = stator.compile(program, backend="eager")
    assert calls(compiled, actions) == calls(program, actions)


@pytest.mark.parametrize("program", OWN_FILTERS)
def test_one_graph(program) -> None:
    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert calls(compiled, ["always"] * 2) == calls(program, ["always"] * 2)
