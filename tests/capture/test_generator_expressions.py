# mypy: ignore-errors
"""Generator expressions over objects from before the call; on 3.15, CPython iterates over them."""

import pytest
import torch

import stator
from stator.testing import count

CLASSES = {torch.Tensor, int}
NUMBERS = {1, 2, 3}
NAMES = {"a": 1, "b": 2}
VALUES = [4, 5]


class Stepping:
    """An iterator that notes who asks it for an iterator."""

    def __init__(self, asked):
        self.asked, self.left = asked, 3

    def __iter__(self):
        self.asked.append("iter")
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


def of_classes(x):
    return x + len(sorted(each.__name__ for each in CLASSES))


def of_a_set(x):
    return x + sum(each for each in NUMBERS)


def of_a_dict(x):
    return x + len("".join(each for each in NAMES))


def of_items(x):
    return x + sum(value for _, value in NAMES.items())


def of_a_list(x):
    return x + sum(each for each in VALUES)


def of_a_tensor(x):
    return sum(each * 2 for each in x)


def in_a_loop(x):
    for each in (each for each in NUMBERS):
        x = x + each
    return x


def asks_once(x):
    asked = []
    return x + sum(each for each in Stepping(asked)), asked


def of_nothing(x):
    return x + sum(each for each in 3)


PROGRAMS = [of_classes, of_a_set, of_a_dict, of_items, of_a_list, of_a_tensor, in_a_loop, asks_once]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_in_eager(program) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
    assert count(compiled) == (1, 1)


def test_a_set_that_changes() -> None:
    compiled = stator.compile(of_a_set, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), of_a_set(torch.ones(2)))
    NUMBERS.add(9)
    try:
        assert torch.equal(compiled(torch.ones(2)), of_a_set(torch.ones(2)))
    finally:
        NUMBERS.remove(9)


def test_what_is_not_iterable() -> None:
    compiled = stator.compile(of_nothing, backend="eager")
    for function in (of_nothing, compiled):
        with pytest.raises(TypeError, match="'int' object is not iterable"):
            function(torch.ones(2))
