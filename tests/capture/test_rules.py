"""What stator says that it does with a callable (`stator why`) is what it does."""

import collections
import copy
import functools
import json
import math
import operator
import os
import random
import time
import zlib
from typing import Any

import numpy as np
import pytest
import torch

import stator
from stator.capture.calls.handlers import HANDLERS, _combined
from stator.capture.calls.rules import rule_of
from stator.cli import main
from stator.diagnostics.breaks import Break

X = torch.arange(1.0, 4.0)


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x

    def method(self, x: Any) -> Any:
        return x + 1


@stator.disable
def disabled(x: Any) -> Any:
    return x


def own(x: Any) -> Any:
    return x * 3


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "torch.relu": (torch.relu, (X,)),
    "Tensor.relu": (torch.Tensor.relu, (X,)),
    "Tensor.size": (torch.Tensor.size, (X,)),
    "Tensor.item": (torch.Tensor.item, (X[0],)),
    "linear": (torch.nn.functional.linear, (X, torch.ones(2, 3))),
    "is_grad_enabled": (torch.is_grad_enabled, ()),
    "save": (torch.save, (X, os.devnull)),
    "sorted": (sorted, ([3, 1, 2],)),
    "sleep": (time.sleep, (0,)),
    "random": (random.random, ()),
    "getpid": (os.getpid, ()),
    "compress": (zlib.compress, (b"abc",)),
    "loads": (json.loads, ("[1, 2]",)),
    "sin": (math.sin, (1.0,)),
    "isinstance": (isinstance, (X, torch.Tensor)),
    "append": (list.append, ([1], 2)),
    "OrderedDict": (collections.OrderedDict, ()),
    "reduce": (functools.reduce, (operator.add, [1, 2, 3])),
    "deepcopy": (copy.deepcopy, ([1, [2]],)),
    "norm": (np.linalg.norm, (np.ones(3),)),
    "Plain": (Plain, (X,)),
    "method": (Plain(1).method, (X,)),
    "disabled": (disabled, (X,)),
    "own": (own, (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_said_is_what_happens(name: str) -> None:
    called, given = CALLS[name]

    def program(x: Any, *args: Any) -> Any:
        called(*args)
        return x + 1

    found = stator.explain(program, backend="eager")(X, *given)
    rule = rule_of(called)
    expected = [] if rule.breaks is None else [rule.breaks.id]
    assert [each.id for each in found.breaks] == expected
    assert found.graph_count >= 1


def test_each_callable_has_one_handler() -> None:
    def handler(*_: Any) -> Any: ...

    assert len(HANDLERS) > 300
    with pytest.raises(AssertionError, match="two handlers for one callable"):
        _combined({1: handler}, {1: handler})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.relu", "torch.relu is recorded as one node of the graph."),
        ("torch.Tensor.relu", "torch.Tensor.relu is recorded as one node of the graph."),
        ("list.append", "Defined in stator/capture/"),
        ("sorted", "Python code that it calls is evaluated"),
        ("time.sleep", "`stator why SB0007` shows what to do about it."),
        ("random.random", "random.random draws anew in every call"),
    ],
)
def test_the_command(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", name]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.nope", "there is no 'nope' in torch"),
        ("nowhere.at.all", "there is no module 'nowhere' that can be imported"),
        ("torch.pi", "torch.pi is of type float, which can't be called"),
    ],
)
def test_the_command_refuses(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", name]) == 2
    assert said in capsys.readouterr().err


def test_reasons_are_breaks() -> None:
    rules = [rule_of(called) for called, _ in CALLS.values()]
    reasons = [rule.breaks for rule in rules if rule.breaks is not None]
    assert reasons and all(issubclass(each, Break) for each in reasons)
