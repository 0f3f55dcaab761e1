# mypy: ignore-errors
"""Relations between ints that are left open, 0 and negative ones among them: all as in eager.

torch solves relations by dividing, also by what may be 0; what it concludes must not be believed.
"""

import functools
import itertools
import random

import pytest
import torch
import torch.nn.functional as F

import stator

X = torch.ones(3)
VALUES = (-2, -1, 0, 1, 2, 3)
LEFT = [
    "a + b",
    "a - b",
    "a * b",
    "a // b",
    "a % b",
    "a * a",
    "a ** 2",
    "x.shape[0] * a",
    "a * b * c",
    "a * (b + 1)",
    "a * b + c",
    "min(a, b)",
    "max(a * b, b)",
    "abs(a)",
    "-a",
]
RIGHT = ["a", "b", "0", "1", "a * c", "a + c", "c * b", "c * c", "a // 2", "b % 2", "max(a, c)"]
OPERATORS = ["+", "-", "*", "//", "%"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(text, calls):
    program = eval(f"lambda x, a, b, c: {text}")
    compiled = stator.compile(program, backend="eager", dynamic=True, recompile_limit=200)
    for values in calls:
        assert outcome(compiled, X, *values) == outcome(program, X, *values), (text, values)


def calls(generator):
    """All that has a 0 first: that is what is traced."""
    found = list(itertools.product(VALUES, repeat=3))
    generator.shuffle(found)
    found.sort(key=lambda values: 0 not in values)
    return found[:14] + found[-6:]


@pytest.mark.parametrize("left", LEFT)
def test_relations(left):
    generator = random.Random(left)
    for number, right in enumerate(RIGHT[LEFT.index(left) % 2 :: 2]):
        comparison = ["==", "!=", "==", "<"][number % 4]
        text = f"(x * 2, {left}, b) if {left} {comparison} {right} else (x * 3, {right}, c)"
        check(text, calls(generator))


@pytest.mark.parametrize("seed", range(4))
def test_random_relations(seed):
    generator = random.Random(seed)

    def number(depth):
        if depth == 0:
            return generator.choice(["a", "b", "c", "a", "b", "x.shape[0]", "0", "1", "-1", "2"])
        kind = generator.choice([*OPERATORS, "min", "max", "**", "abs"])
        if kind in ("min", "max"):
            return f"{kind}({number(depth - 1)}, {number(depth - 1)})"
        if kind == "**":
            return f"({number(depth - 1)}) ** 2"
        if kind == "abs":
            return f"abs({number(depth - 1)})"
        return f"({number(depth - 1)} {kind} {number(depth - 1)})"

    for _ in range(6):
        left, right = number(generator.choice([1, 2])), number(generator.choice([0, 1]))
        condition = f"{left} {generator.choice(COMPARISONS)} {right}"
        check(f"(x + {left}, b) if {condition} else (x, {right})", calls(generator))


@pytest.mark.parametrize("first", [0, 2, 3])
def test_nothing_follows_from_a_factor(first):
    """`b` and `c` may differ where `a` is 0, also if they did not when it was traced."""

    def program(x, a, b, c):
        if a * b == a * c:
            return x * b, x * c
        return x, x

    compiled = stator.compile(program, backend="eager", dynamic=True)
    for a, b, c in [(first, 4, 4), (0, 4, 5), (0, 5, 4), (2, 3, 3), (2, 3, 4), (0, 7, 2)]:
        assert outcome(compiled, X, a, b, c) == outcome(program, X, a, b, c)


def scaled(x, factor):
    y = F.interpolate(x, scale_factor=factor)
    return y, y.shape[-1], torch.ones(y.shape[-1] + 1)


def recomputed(x, factor):
    y = F.interpolate(x, scale_factor=factor, mode="linear", recompute_scale_factor=True)
    return y, y.shape[-1]


def halved(x, factor):
    y = F.interpolate(x, scale_factor=factor)
    n = y.shape[-1]
    return y[..., : n // 2] if n % 2 == 0 else torch.arange(n)


def pooled(x, factor):
    y = F.avg_pool1d(x, 3, stride=2, ceil_mode=True)
    return y.shape[-1] * y, y.numel()


@pytest.mark.parametrize("program", [scaled, recomputed, halved, pooled])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_are_rounded(program, backend, dynamic):
    for factor in (1.5, 0.7, 2, 1 / 3):
        compiled = stator.compile(program, backend=backend, dynamic=dynamic)
        for size in (10, 11, 12, 13, 20, 31, 4):
            x = torch.arange(float(size)).reshape(1, 1, size)
            assert outcome(compiled, x, factor) == outcome(program, x, factor), (factor, size)


MANY = {
    "sum": lambda x, ns: x * sum(ns),
    "max": lambda x, ns: (x * max(ns), min(ns)),
    "sorted": lambda x, ns: (x, sorted(ns, reverse=True)[:3]),
    "compared": lambda x, ns: x * 2 if sum(ns) > 7 else x * 3,
    "each": lambda x, ns: [x + n for n in ns][-1],
    "nested": lambda x, ns: x if functools.reduce(lambda a, n: 1 - (n - a), ns, 1) > 3 else -x,
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("dynamic", [None, True])
def test_many_numbers(name, kind, dynamic):
    program = MANY[name]
    compiled = stator.compile(program, backend="eager", dynamic=dynamic)
    for start in range(4):
        numbers = [kind(start + index) for index in range(120)]
        assert outcome(compiled, X, numbers) == outcome(program, X, numbers)
