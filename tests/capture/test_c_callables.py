# mypy: ignore-errors
"""Callables of C, and what objects of C say that they are made of."""

import copy
import enum
import functools
import itertools
import pickle
import re
import sys
import typing

import pytest
import torch

import stator

from .harness import Programs, check, t

programs = Programs()
REDUCED = sys.version_info < (3, 14)  # whether itertools can tell what is in them
UserId = typing.NewType("UserId", int)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def shout(self):
        return self.name


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Count:
    def __init__(self):
        self.number = 0

    def __call__(self):
        self.number += 1
        return self.number


def helper():
    """A function of the world."""


def one():
    return (t(3),)


@programs(one)
def new_types(x):
    found = list(map(UserId, [1, 2])), sorted([3, 1], key=UserId), UserId.__name__, repr(UserId)
    return x + UserId(4), found


@programs(one, changes={"member": lambda: (t(3), Colour.BLUE)})
def names_of_members(x, member=Colour.RED):
    return x + len(dir(member)), dir(member), dir(Flags.A), dir(Colour)


@programs(one)
def reduced_iterators(x):
    lengths = map(len, ["a", "bb"])
    powers = itertools.starmap(pow, [(2, 3), (3, 2)]) if REDUCED else map(pow, [2, 3], [3, 2])
    until, kept = iter(Count(), 4), filter(callable, [1, len])
    next(lengths), next(until)
    made_of = [each.__reduce__()[1][0] for each in (lengths, powers, kept)]
    same = [a is b for a, b in zip(made_of, (len, pow, callable), strict=True)]
    copies = [list(copy.copy(each)) for each in (lengths, powers, kept)]
    again = list(pickle.loads(pickle.dumps(until)))
    return x + sum(same), copies, again, list(until)


@programs(one)
def ordered_classes(x):
    @functools.total_ordering
    class Version:
        def __init__(self, number):
            self.number = number

        def __lt__(self, other):
            return self.number < other.number

        def __eq__(self, other):
            return self.number == other.number

    functools.total_ordering(Version)
    return x + 1, Version(1) >= Version(0), Version(1) <= Version(0), Version(2) > Version(2)


@programs(one, world=lambda: [helper.__name__, helper.__doc__])
def names_that_are_there_already(x):
    helper.__name__ = "helper"
    helper.__doc__ = "A function of the world."
    return x + len(helper.__name__), helper


@pytest.mark.parametrize("program", programs, ids=str)
def test_c_callables(program):
    # Its own functions get their names when it is used for the first time.
    functools.total_ordering(type("Used", (), {"__lt__": lambda self, other: True}))
    check(program)


@pytest.mark.parametrize("seed", range(2))
def test_templates_of_patterns(seed):
    """Also those that are used for the first time."""
    template = rf"<\1:{seed}-\g<word>>"

    def program(x, text):
        found = re.sub(r"(?P<word>\w)\d", template, text)
        return x + len(found), found, re.compile("(b)").subn(r"[\1]", text), re.escape(text)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for text in ("a1b2", "a1b2", "xyz", "b9"):
        assert repr(compiled(torch.ones(2), text)) == repr(program(torch.ones(2), text))
