# mypy: ignore-errors
"""C functions that C code calls: a factory, a hook, a special method that is none of Python's.

They do what they do in each call, in order, and never while the program is traced.
"""

import bisect
import collections
import decimal
import functools
import itertools
import json
import operator
import random
import re
import time

import pytest
import torch

import stator

KEPT = []
ODD = re.compile("[ab]")
PRINTED = collections.defaultdict(print)


class Shown:
    __eq__ = print


class Asked:
    __getattr__ = staticmethod(print)


class Bool:
    __bool__ = functools.partial(print, "asked")


def made(**members):
    return type("Made", (), members)()


PROGRAMS = {
    "pattern": lambda: ODD.sub(print, "abc"),
    "pattern, twice": lambda: ODD.subn(KEPT.append, "abc"),
    "factory": lambda: collections.defaultdict(print)["a"],
    "factory of the world": lambda: PRINTED["a"],
    "factory of numbers": lambda: 0 <= collections.defaultdict(random.random)["a"] < 1,
    "factory that counts": lambda: collections.defaultdict(itertools.count(3).__next__)["a"],
    "keys": lambda: sorted([3, 1, 2], key=functools.cmp_to_key(operator.sub)),
    "keys that are shown": lambda: sorted([3], key=functools.cmp_to_key(print)),
    "bisect": lambda: bisect.bisect([1.0], 1.0, key=KEPT.append) if not KEPT else len(KEPT),
    "call": lambda: operator.call(print, "x", end="!"),
    "cache": lambda: functools.lru_cache(print)("z"),
    "cache that waits": lambda: functools.lru_cache(time.sleep)(0),
    "hook": lambda: json.loads('{"a": 1}', object_hook=print),
    "hook that keeps": lambda: json.loads('[{"a": 1}, {}]', object_hook=KEPT.append),
    "numbers": lambda: json.loads("[1.5, 2]", parse_float=decimal.Decimal, parse_int=print),
    "constants": lambda: json.loads("[NaN]", parse_constant=print),
    "default": lambda: json.dumps({"a": 1j}, default=print),
    "default, text": lambda: json.dumps({"a": 1j}, default=str),
    "equal": lambda: [Shown()] == [3],
    "equal, made": lambda: [made(__eq__=print)] == [3],
    "attribute": lambda: Asked().a,
    "attribute, made": lambda: made(__getattr__=staticmethod(print)).a,
    "set, made": lambda: setattr(made(__setattr__=print), "a", 1),
    "length, made": lambda: made(__len__=[1, 2].__len__).__class__.__len__(),
    "missing, made": lambda: type("Made", (dict,), {"__missing__": print})()["a"],
    "hash, made": lambda: {made(__hash__=KEPT.__len__): 1} and 1,
}


def outcomes(program, capsys):
    lines = []
    for number in range(3):
        try:
            result, y = program(torch.ones(2) * number)
            lines.append((repr(result), y.tolist()))
        except Exception as error:
            assert not type(error).__module__.startswith("stator"), error
            lines.append(f"{type(error).__name__}: {error}")
        lines.append((capsys.readouterr().out, repr(KEPT)))
    return [re.sub("0x[0-9a-f]+", "0x", str(line)) for line in lines]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_does_it(name, capsys) -> None:
    asked = PROGRAMS[name]

    def program(x):
        return asked(), x + 1

    found = []
    for compiled in (False, True):
        KEPT.clear()
        PRINTED.clear()
        stator.reset()
        function = stator.compile(program, backend="eager") if compiled else program
        found.append(outcomes(function, capsys))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name", ["pattern", "keys", "call", "cache", "hook", "numbers", "default, text", "constants"]
)
def test_it_is_captured(name, capsys) -> None:
    asked = PROGRAMS[name]
    function = stator.compile(lambda x: (asked(), x + 1), backend="eager", fullgraph=True)
    assert outcomes(function, capsys)[0]
    assert stator.testing.count(function).compiles == 1


def test_a_hook_is_the_program_s_own() -> None:
    def program(x):
        decoder = json.JSONDecoder(parse_float=decimal.Decimal, object_hook=dict)
        scanner = decoder.scan_once
        hooks = scanner.parse_float, scanner.object_hook, scanner.parse_int, scanner.strict
        return hooks, decoder.decode('{"a": 1.5}'), x + 1

    function = stator.compile(program, backend="eager", fullgraph=True)
    hooks, decoded, _ = function(torch.ones(1))
    assert hooks == (decimal.Decimal, dict, int, True)
    assert decoded == {"a": decimal.Decimal("1.5")}


def test_a_factory_is_set() -> None:
    def program(held, x):
        held.default_factory = KEPT.__len__
        return held["a"], x + 1

    for compiled in (False, True):
        KEPT.clear()
        function = stator.compile(program, backend="eager") if compiled else program
        for number in range(3):
            assert function(collections.defaultdict(int), torch.ones(1))[0] == number
            KEPT.append(number)


MADE = collections.defaultdict(functools.partial(torch.zeros, 2))
DRAWN = collections.defaultdict(functools.partial(torch.rand, 2))


def test_a_factory_of_tensors() -> None:
    def program(x):
        own = collections.defaultdict(x.clone)
        return own["a"] + MADE["b"] + collections.defaultdict(torch.Tensor)["c"].numel()

    MADE.clear()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for number in range(3):
        assert compiled(torch.ones(2) * number).tolist() == [number, number]
        assert list(MADE) == ["b"]


def test_a_factory_that_draws() -> None:
    def program(x):
        DRAWN.clear()
        return DRAWN["a"] + x

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for function in (program, compiled, compiled):
        torch.manual_seed(3)
        found = function(torch.zeros(2))
        assert DRAWN["a"].equal(found)
        torch.manual_seed(3)
        assert found.equal(torch.rand(2))


def test_how_items_compare_is_a_fact_of_their_class() -> None:
    class Base:
        pass

    class Item(Base):
        pass

    def program(x, a, b):
        return [a] == [b], ((a,),) == ((b,),), {1: a} == {1: b}, x + 1

    function = stator.compile(program, backend="eager", fullgraph=True)
    items = Item(), Item()
    for same in (False, True, False):
        if same:
            Base.__eq__ = lambda self, other: True
        elif "__eq__" in vars(Base):
            del Base.__eq__
        assert function(torch.ones(1), *items)[:3] == (same, same, same)
