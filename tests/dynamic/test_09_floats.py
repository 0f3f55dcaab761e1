# mypy: ignore-errors
"""Floats that change: two graphs, and one more for each way that the program takes by them."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

import stator

from .harness import Counting, compare, tensor

SPECIAL = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-300, 1e300, 0.1)


def numbers(count=24):
    generator = random.Random(5)
    chosen = [generator.uniform(-3, 3) for _ in range(count - len(SPECIAL))]
    return [0.1, 0.2, *SPECIAL, *chosen]


def arithmetic(x, f):
    return x * f + f - x / (f + 4), f * x, 2 * f - 1, -f, abs(f), x > f


def promotion(x, f):
    whole = x.to(torch.int64)
    return whole * f, x.to(torch.float16) * f, x.bool() + f, whole + f, x.to(torch.bfloat16) - f


def made(x, f):
    return torch.full((2,), f), torch.tensor([f, 1.0]), torch.where(x > 0, f, 0.0)


def given_to_operators(x, f):
    return torch.add(x, x, alpha=f), torch.clamp(x, max=f), F.leaky_relu(x, f), torch.lerp(x, -x, f)


def in_place(x, f):
    x.add_(x, alpha=f)
    x.mul_(f)
    return x


def in_a_text(x, f):
    return f"{f}", x * f


def of_both(x, f):
    return x * (f * x.shape[0]) + x.sum() * f


LEFT_OPEN = (
    arithmetic,
    promotion,
    made,
    given_to_operators,
    in_place,
    in_a_text,
    of_both,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", LEFT_OPEN, ids=lambda p: p.__name__)
def test_left_open(program, backend):
    calls = [lambda f=f: (tensor(3, 4), f) for f in numbers()]
    assert compare(program, calls, backend).compiles == 2


def test_with_sizes():
    calls = [lambda n=n, f=f: (tensor(n, 3), f) for n, f in enumerate(numbers(), 2)]
    assert compare(of_both, calls).compiles == 2
    assert compare(of_both, calls, dynamic=True).compiles == 2


def branch(x, f):
    return x * 2 if f > 0.15 else x - f


def c_function(x, f):
    return x * math.exp(f)


def power(x, f):
    return x * f**2, f // 2


def key(x, f):
    return x * {0.1: 1, 0.2: 2}.get(f, 3)


@pytest.mark.parametrize("program", [c_function, power, key], ids=lambda p: p.__name__)
def test_where_only_the_float_will_do(program):
    values = [0.1, 0.2, 0.3, 0.1, 0.3, -2.0]
    calls = [lambda f=f: (tensor(3, 4), f) for f in values]
    result = compare(program, calls, fullgraph=True)
    assert result.compiles == len(set(values))


def several(x, f):
    if not f:
        return x
    return x * 2 if (f * 2 - 1) / 4 >= -0.175 and abs(f) < 2.5 else x - f


def chained(x, f):
    return x - f if -1 < f <= 0.25 else x * f


@pytest.mark.parametrize(
    ("program", "ways"), [(branch, 2), (several, 7), (chained, 3)], ids=lambda p: str(p)
)
def test_decisions(program, ways):
    """One graph for the first float, and one for each way through the program."""
    calls = [lambda f=f: (tensor(3, 4), f) for f in numbers()]
    result = compare(program, calls, fullgraph=True)
    assert result.compiles <= 1 + ways
    assert all(entry.guards.callbacks == 0 for entry in result.compiled.entries())


def test_a_decision_by_one_leaves_the_others_open():
    def program(x, f, g):
        return x * g if f > 0.15 else x - g * math.exp(f)

    cases = [(f, g) for g in (0.1, 0.2, 0.3, 0.4) for f in (0.2, 0.3, 0.4)]
    calls = [lambda case=case: (tensor(3, 4), *case) for case in cases]
    assert compare(program, calls, fullgraph=True).compiles == 3  # none, f and both left open
    stator.reset()
    cases = [(f, g) for f in (0.1, 0.05) for g in (0.1, 0.2, 0.3, 0.4)]
    calls = [lambda case=case: (tensor(3, 4), *case) for case in cases]
    assert compare(program, calls, fullgraph=True).compiles == 3  # then one for each f


def test_the_guard_tells_the_line():
    counting = Counting()
    compiled = stator.compile(branch, backend=counting)
    compiled(tensor(3), 0.1)
    compiled(tensor(3), 0.2)
    (entry, *_) = compiled.entries()
    told = [str(each.guards.explain((tensor(3), -1.0), branch)) for each in compiled.entries()]
    assert any("(f > 0.15)" in text and "test_09_floats.py" in text for text in told), told
    assert entry is not None


def test_never():
    calls = [lambda f=f: (tensor(3, 4), f) for f in (0.1, 0.2, 0.3)]
    assert compare(arithmetic, calls, dynamic=False).compiles == 3


def test_other_types_are_other_calls():
    calls = [lambda f=f: (tensor(3, 4), f) for f in (0.1, 0.2, 3, True, 0.3, 0.4)]
    assert compare(of_both, calls).compiles == 4


def test_of_an_object():
    class Schedule:
        def __init__(self):
            self.rate = 0.5

    schedule, groups = Schedule(), [{"rate": 0.5}]
    weights = [torch.ones(3), torch.ones(3)]

    def step(weight, gradient):
        weight -= schedule.rate * gradient
        weight.sub_(gradient, alpha=groups[0]["rate"])

    counting = Counting()
    compiled = stator.compile(step, backend=counting, fullgraph=True)
    for _ in range(6):
        compiled(weights[0], torch.ones(3))
        step(weights[1], torch.ones(3))
        assert torch.equal(*weights)
        schedule.rate = groups[0]["rate"] = schedule.rate * 0.75  # the same object
    assert len(counting.graphs) == 2


def test_written():
    class Mean:
        def __init__(self):
            self.value = 0.25

    def update(mean, x):
        mean.value = mean.value * 0.5 + 1.0
        return x * mean.value

    expected, actual, counting = Mean(), Mean(), Counting()
    compiled = stator.compile(update, backend=counting, fullgraph=True)
    for _ in range(5):
        assert torch.equal(compiled(actual, tensor(3)), update(expected, tensor(3)))
        assert actual.value == expected.value
        assert type(actual.value) is float
    assert len(counting.graphs) == 2


def test_gradients():
    def loss(x, f):
        return ((x * f).sin() / (1 + f)).sum()

    counting = Counting("aot_eager")
    compiled = stator.compile(loss, backend=counting, fullgraph=True)
    for f in (0.1, 0.2, 0.3, 2.0):
        given = [tensor(3, 4).requires_grad_() for _ in range(2)]
        compiled(given[0], f).backward()
        loss(given[1], f).backward()
        torch.testing.assert_close(given[0].grad, given[1].grad)
    assert len(counting.graphs) == 2


def test_inside_of_a_region():
    def program(x, f):
        return torch.utils.checkpoint.checkpoint(lambda y: (y * f).cos(), x, use_reentrant=False)

    calls = [lambda f=f: (tensor(3, 4), f) for f in (0.1, 0.2, 0.3, 0.4)]
    compare(program, calls, fullgraph=True)
