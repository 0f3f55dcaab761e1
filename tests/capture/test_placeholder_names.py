# mypy: ignore-errors
"""Placeholders are named after the way in which the program reaches the value, always the same."""

import collections
import dataclasses
import functools
import types

import numpy as np
import pytest
import torch
from torch import nn

import stator

ONES = torch.ones(3)
TABLE = {"a": torch.ones(3), 1: torch.ones(3), (1, "b"): torch.ones(3)}
ROWS = [torch.ones(3), [torch.ones(3)]]
Pair = collections.namedtuple("Pair", "u v")
MODULE = __name__.replace(".", "_")


class Thing:
    t = torch.ones(3)

    def __init__(self):
        self.own = torch.ones(3)

    def method(self, x):
        return x + self.own


class Slotted:
    __slots__ = ("t",)

    def __init__(self):
        self.t = torch.ones(3)


@dataclasses.dataclass
class Data:
    a: torch.Tensor
    b: list


class Sub(torch.Tensor):
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.ones(3))
        self.plain = torch.ones(3)
        self.rows = [torch.ones(3)]
        self.some = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.named = nn.ParameterDict({"k": nn.Parameter(torch.ones(3))})

    def forward(self, x):
        return x + self.w + self.b + self.plain + self.rows[0] + self.some[0] + self.named["k"]


def closing(w, rows):
    def inner(x):
        return x * w

    def call(x):
        return inner(x) + w + rows[0]

    return call


def adding(w):
    return lambda x: x + w


@functools.lru_cache
def kept():
    return torch.ones(3)


@stator.assume_constant_result
def constant():
    return torch.ones(3)


def broken(x, n):
    y = x + 1
    rows = [y, {"k": y * 2}]
    stator.graph_break()
    return y + rows[1]["k"] + ONES + n


def called(a):
    b = a * 2
    stator.graph_break()
    return b + a


def variables():
    w = torch.ones(3)

    def call(x):
        nonlocal w
        w = w + x
        stator.graph_break()
        return w * 2

    return call


def with_grad():
    made = nn.Parameter(torch.ones(3))
    made.grad = torch.ones(3)
    return made


x = torch.ones(3)
CASES = {
    "global": (lambda x: x + ONES, (x,), ["x", f"{MODULE}_ONES"]),
    "dict": (
        lambda x: x + TABLE["a"] + TABLE[1] + TABLE[1, "b"],
        (x,),
        ["x", f"{MODULE}_TABLE_a_", f"{MODULE}_TABLE_1_", f"{MODULE}_TABLE_1_b_"],
    ),
    "list": (
        lambda x: x + ROWS[0] + ROWS[1][0],
        (x,),
        ["x", f"{MODULE}_ROWS_0_", f"{MODULE}_ROWS_1_0_"],
    ),
    "class": (lambda x: x + Thing.t, (x,), ["x", "Thing_t"]),
    "class_of_an_object": (lambda x, o: x + o.t + o.own, (x, Thing()), ["x", "Thing_t", "o_own"]),
    "method": (Thing().method, (x,), ["x", "self_own"]),
    "dataclass": (lambda d: d.a + d.b[0], (Data(x, [x + 1]),), ["d_a", "d_b_0_"]),
    "slots": (lambda s: s.t + 1, (Slotted(),), ["s_t"]),
    "namedtuple": (lambda p: p.u + p.v, (Pair(x, x + 1),), ["p_0_", "p_1_"]),
    "namespace": (lambda n: n.t + 1, (types.SimpleNamespace(t=x),), ["n_t"]),
    "ordered_dict": (lambda d: d["k"] + 1, (collections.OrderedDict(k=x),), ["d_k_"]),
    "deque": (lambda d: d[0] + 1, (collections.deque([x]),), ["d_0_"]),
    "arguments": (lambda *args: args[0] + args[1], (x, x + 1), ["args_0_", "args_1_"]),
    "default": (lambda x, y=ONES: x + y, (x,), ["x", "y"]),
    "closure": (closing(torch.ones(3), [torch.ones(3)]), (x,), ["x", "w", "rows_0_"]),
    "closure_of_an_argument": (lambda f, x: f(x), (adding(torch.ones(3)), x), ["x", "w_of_f"]),
    "partial": (
        lambda f, x: f(x),
        (functools.partial(torch.add, torch.ones(3)), x),
        ["f_args_0_", "x"],
    ),
    "numpy": (lambda a, x: x + torch.from_numpy(a), (np.ones(3, "float32"), x), ["x", "a"]),
    "int": (lambda x, n: x + n, (x, 5), ["x", "n"]),
    "subclass": (lambda s: s + 1, (x.as_subclass(Sub),), ["s"]),
    "gradient": (lambda p: p.grad + p, (with_grad(),), ["p", "p_grad"]),
    "module": (
        Net(),
        (x,),
        ["args_0_", "self_w", "self_b", "self_plain", "self_rows_0_", "self_some_0_"]
        + ["self_named_k"],
    ),
    "cached": (lambda x: x + kept(), (x,), ["x", "kept_"]),
    "constant": (lambda x: x + constant(), (x,), ["x", "constant_"]),
    "break": (broken, (x, 3), ["x", "y", "rows_1_k_", f"{MODULE}_ONES"]),
    "break_in_a_call": (lambda x: called(x + 1) + x, (x,), ["x", "a", "b", "x"]),
    "variable_behind_a_break": (variables(), (x,), ["x", "w", "w"]),
}


def named(function, args, **options):
    found = []

    def backend(module, inputs):
        found.extend(node.target for node in module.graph.nodes if node.op == "placeholder")
        return module.forward

    stator.compile(function, backend=backend, **options)(*args)
    return found


@pytest.mark.parametrize("name", CASES)
def test_named_after_the_source(name):
    kept()
    function, args, expected = CASES[name]
    found = named(function, args, dynamic=True if name == "int" else None)
    assert sorted(found) == sorted(expected)


def test_no_addresses():
    """What lies in memory where is another in each process: caches of compiled code would miss."""
    for name, (function, args, _) in CASES.items():
        stator.reset()
        assert not [each for each in named(function, args) if "0x" in each], name
