"""What another process answers otherwise, with nothing changed: hashes, and the orders of sets.

Each program runs in processes that hash strings differently, with one cache. Values are compared
with eager in the same process; those that ask for no order are loaded.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import stator

PROGRAM = """
import functools
import itertools
import json
import sys

import torch

import stator
from stator.driver import cached

WORLD = {"alpha", "be", "gam", "d"}

class A: pass
class B: pass
class C: pass
class D: pass

def first(*given):
    return given[0]

def a_loop(x):
    for place, name in enumerate({"alpha", "be", "gam", "d"}):
        x = x * len(name) + place
    return x

def a_set_that_grows(x):
    made = set()
    for name in ("alpha", "be", "gam", "d"):
        made.add(name)
    return x * len(made.pop())

def a_list(x):
    return x, list({"alpha", "be", "gam", "d"}), [*{b"a", b"bb", b"ccc"}]

def classes(x):
    return x, [each.__name__ for each in {A, B, C, D}]

def tuples(x):
    return x, [each for each in {("a", 1), ("b", 2), ("c", 3)}]

def keys(x):
    return x, list({"alpha": 1, "be": 2, "gam": 3, "d": 4}.keys() - {"be"})

def a_union(x):
    return x * len(next(iter(WORLD | {"zzzzzzz"})))

def texts(x):
    made = {"alpha", "be", "gam", "d"}
    return x, f"{made}", str([made]), "%s" % (made,), ",".join(made)

def unpacked(x):
    one, *rest = {"alpha", "be", "gam"}
    return x, one, rest, first(*{"alpha", "be", "gam"})

def added(x):
    made = [0, 0]
    made += {"alpha", "be", "gam", "d"}
    made[:1] = {"alpha", "be", "gam", "d"}
    return x, made

def generators(x):
    def inner():
        yield from {"alpha", "be", "gam", "d"}
    return x, list(inner()), list(itertools.chain({"alpha", "be"}, {"gam", "d"}))

def applied(x):
    made = {"alpha", "be", "gam", "d"}
    return x, list(map(len, made)), functools.reduce(lambda a, b: a + b, made), max(made, key=any)

def a_set(x):
    return x, {"alpha", "be", "gam", "d"}

def a_hash(x):
    return x * ("abc".__hash__() % 7), object.__hash__(A) % 3

def of_the_world(x):
    return x, [each for each in WORLD]

def any_order(x):
    made = {"alpha", "be", "gam", "d"}
    return x * len(made), sorted(made), "be" in made, made >= {"be"}, max({1, 2, 3}), [*{1.5, 2}]

def asked(x):
    return x, sys.getrecursionlimit(), torch.get_num_threads()

def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, set):
        return ["a set", *value]
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value

x, told = torch.arange(3.0), {}
for name, program in list(globals().items()):
    if getattr(program, "__code__", None) and name not in ("plain", "first"):
        before = stator.counters()["loaded"]
        expected, found = program(x), stator.compile(program, backend="eager")(x)
        told[name] = plain(expected) == plain(found), stator.counters()["loaded"] - before
print(json.dumps(told))
"""
LOADED = ("any_order", "asked")
"""They ask for nothing that another process answers otherwise."""


def test_other_hashes(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    loaded: dict[str, int] = {}
    for seed in range(1, 5):
        environment = {
            **os.environ,
            "STATOR_CACHE": "1",
            "STATOR_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONHASHSEED": str(seed),
        }
        command = [sys.executable, str(path)]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        told: dict[str, Any] = json.loads(ran.stdout)
        assert [name for name, (same, _) in told.items() if not same] == []
        for name, (_, count) in told.items():
            loaded[name] = loaded.get(name, 0) + count
    assert {name: loaded[name] for name in LOADED} == dict.fromkeys(LOADED, 3)


def now() -> int:
    return ANSWERS[-1]


ANSWERS = [3]


stator.assume_constant_result(now)


def with_a_constant(x: torch.Tensor) -> torch.Tensor:
    return x * now()


def original(x: torch.Tensor) -> torch.Tensor:
    return x


def with_a_substitute(x: torch.Tensor) -> torch.Tensor:
    return original(x)


def test_an_assumed_constant(cache: Path) -> None:
    """It holds for this process: nothing guards it."""
    x = torch.ones(3)
    for factor in (3, 4):
        stator.reset()
        ANSWERS[:] = [factor]
        assert torch.equal(stator.compile(with_a_constant, backend="eager")(x), x * factor)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def negative(x: torch.Tensor) -> torch.Tensor:
    return -x


def test_a_substitute(cache: Path) -> None:
    x = torch.ones(3)
    for substitute in (double, negative):
        stator.reset()
        stator.substitute_in_graph(original)(substitute)
        found = stator.compile(with_a_substitute, backend="eager")(x)
        assert torch.equal(found, substitute(x))
