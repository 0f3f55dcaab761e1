"""Numbers that are open or read from tensors, in containers that C code reads to the bottom."""

# mypy: ignore-errors

import json
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from types import SimpleNamespace

import pytest
import torch

import stator
from tests.dynamic.harness import Counting, outcome

Pair = namedtuple("Pair", "first second")


class Items(list):
    """A list of a class of its own, with a method that nothing is to call."""

    def __setitem__(self, key, value):
        raise AssertionError


class Named(tuple):
    """A tuple with attributes."""


def named(n):
    made = Named([n])
    made.name = n
    return made


READ = {
    "list": lambda n: json.dumps([n, [n]]),
    "subclass": lambda n: json.dumps(Items([n])),
    "inside": lambda n: json.dumps({"a": [Items([n]), (n,)]}),
    "ordered": lambda n: json.dumps(OrderedDict(a=n)),
    "default": lambda n: json.dumps(defaultdict(int, a=n)),
    "counter": lambda n: json.dumps(Counter(a=n)),
    "pair": lambda n: json.dumps(Pair(n, n + 1)),
    "attributes": lambda n: json.dumps(named(n)),
    "deque": lambda n: sorted(deque([n, 2, 1])),
    "namespace": lambda n: SimpleNamespace(a=n) == SimpleNamespace(a=2),
    "itself": lambda n: (made := [n], made.append(made), made == made)[2],
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", ["size", "value"])
@pytest.mark.parametrize("name", READ)
def test_c_code_gets_numbers(name, kind, dynamic):
    def program(x):
        n = x.shape[0] if kind == "size" else int((x > 1).sum())
        return READ[name](n), x * n

    counting = Counting()
    compiled = stator.compile(program, backend=counting, dynamic=dynamic)
    for values in ([0.0, 2.0], [2.0, 3.0, 4.0], [0.0], [5.0, 6.0, 0.0, 1.0]):
        call = (torch.tensor(values),)
        assert outcome(compiled, call) == outcome(program, call)
    assert counting.graphs
