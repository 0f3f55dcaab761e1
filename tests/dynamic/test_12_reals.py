# mypy: ignore-errors
"""Floats that follow from sizes and ints: the size stays open, and the float is CPython's."""

import math
import random

import pytest
import torch

import stator

from .harness import Counting, compare, tensor

# Of an int that is left open: one graph for all of them, from 2 on.
FORMS = {
    "n / 3": lambda n: n / 3,
    "7 / n": lambda n: 7 / n,
    "n * 0.1": lambda n: n * 0.1,
    "0.3 - n": lambda n: 0.3 - n,
    "n / 0.3": lambda n: n / 0.3,
    "sums": lambda n: ((n * 0.1) * 3.0 - 0.3) + 0.1 + n / 7,
    "signs": lambda n: (-(n / 7), abs(0.5 - n / 3), +(n / 2)),
    "float": float,
    "sqrt": lambda n: (math.sqrt(n), math.sqrt(n / 3)),
    "powers": lambda n: (n**0.5, n**-0.5, n**-1, 2.0**n, 2**-n, (n / 3) ** 2),
    "log2": math.log2,
    "ceil": lambda n: (math.ceil(n / 3), math.ceil(n / 2.5), math.ceil(n * 0.1)),
    "floor": lambda n: (math.floor(n / 3), math.floor(n * 0.75), math.floor(n**0.5)),
    "int": lambda n: (int(n * 0.5), int(n * 0.7), int(n / 3), int(100 / n), int(n / 3 + 0.5)),
    "round": lambda n: (round(n / 2), round(n / 3), round(n * 1.5)),
    "trunc": lambda n: math.trunc(n / 1.5),
    "divided": lambda n: (n + 1) / n,
    "tests": lambda n: (math.isnan(n / 2), math.isinf(n / 3), math.isfinite(n * 0.1)),
    "infinite": lambda n: (n / 2 < math.inf, n > -math.inf, n / 3 == math.nan),
    "extremes": lambda n: (max(0.5, n / 3), min(n / 2, 400.0, n * 0.3), max(n / 3, n / 7)),
}
NUMBERS = [*range(2, 40), 99, 1000, 4097, 2**20 + 1, 2**31 - 1]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_of_an_int(form, backend):
    if form == "powers":
        numbers = [n for n in NUMBERS if n < 1000]  # others are too large for a float
    else:
        numbers = NUMBERS

    def program(x, n):
        return x * 1, FORMS[form](n)

    calls = [lambda n=n: (tensor(3), n) for n in numbers]
    found = compare(program, calls, backend, dynamic=True, fullgraph=True)
    assert found.compiles == 1
    assert all(entry.guards.callbacks == 0 for entry in found.compiled.entries())


def test_of_negative_ints():
    """For some, another graph; for none, another result."""

    def program(x, n):
        return x * 1, int(n / 3), math.ceil(n / 4), round(n / 2), abs(n / 3), n * 0.1, max(n / 2, 1)

    calls = [lambda n=n: (tensor(3), n) for n in [*range(2, 9), *range(-9, 0), 0, 1]]
    assert compare(program, calls, dynamic=True, fullgraph=True).compiles <= 8


def test_what_python_refuses():
    def program(x, n):
        return x * (1 / n), x * math.sqrt(n), x * n**-1.5, x * math.log2(n)

    calls = [lambda n=n: (tensor(3), n) for n in (4, 3, 0, -1, -2, 5, 1, 0)]
    compare(program, calls, dynamic=True)


def test_large_quotients():
    """Where the next float is further away than the next integer, and near it."""

    def program(x, a, b, c):
        return x * 1, math.floor(a * b / c), math.ceil(a * b / c), int(a * b * 0.75), a * b / c

    generator = random.Random(3)
    calls = []
    for _ in range(60):
        bits = generator.choice([8, 20, 26, 27, 30])
        a, b = (generator.randrange(2, 2**bits) for _ in range(2))
        c = generator.choice([2, 3, 7, a, b, max(a - 1, 2), generator.randrange(2, 2**bits)])
        calls.append(lambda case=(a, b, c): (tensor(3), *case))
    compare(program, calls, dynamic=True, limit=128)


def test_rounding_is_not_torchs():
    """In torch's own arithmetic, 0.1 + 0.2 would come first."""

    def program(x, n):
        return x * 1, n * 0.5 + 0.1 + 0.2, n * 0.1 * 3

    counting = Counting("aot_eager")
    compiled = stator.compile(program, backend=counting, dynamic=True)
    found = [compiled(tensor(3), n)[1:] for n in range(2, 30)]
    assert found == [(n * 0.5 + 0.1 + 0.2, n * 0.1 * 3) for n in range(2, 30)]
    assert len(counting.graphs) == 1
    assert "torch.add" in counting.graphs[0]


def test_an_operator_that_takes_the_number_fixes_it():
    def program(x):
        q = x[None, None]
        scale = x.shape[1] ** -0.5
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=scale).shape

    calls = [lambda n=n, m=m: (tensor(n, m),) for m in (3, 4) for n in (3, 4, 5)]
    assert compare(program, calls, dynamic=True).compiles == 2


def test_keys_and_c_functions_fix_the_size():
    def program(x):
        n = x.shape[0]
        return {1.5: "three"}.get(n / 2), math.gamma(n / 2), "%5.1f" % (n / 4), x * 1

    calls = [lambda n=n: (tensor(n, 3),) for n in (3, 4, 3, 5)]
    assert compare(program, calls, dynamic=True, fullgraph=True).compiles == 3


def test_next_to_numbers_from_tensors():
    def program(x):
        return x * (x.sum().item() * (x.shape[0] / 3)), x.shape[0] / 2 + x.max().item()

    calls = [lambda n=n: (tensor(n, 3),) for n in range(2, 9)]
    assert compare(program, calls, dynamic=True, fullgraph=True).compiles == 1


def test_it_tells_which_number_is_decided_by():
    def program(x):
        return x + 1 if x.shape[0] / 3 > 1.5 else x - 1

    compiled = stator.compile(program, backend="eager", dynamic=True)
    compiled(tensor(6, 3))
    (entry,) = compiled.entries()
    told = str(entry.guards.explain((tensor(3, 3),), program))
    assert "((x.size(0) / 3) > 1.5)" in told
    assert "test_12_reals.py" in told


def test_marked():
    def program(x):
        return x * (x.shape[0] / 3)

    x = tensor(5, 3)
    stator.mark_dynamic(x, 0)
    compiled = stator.compile(program, backend="eager")
    assert torch.equal(compiled(x), program(x))
    assert torch.equal(compiled(tensor(7, 3)), program(tensor(7, 3)))
    assert int(compiled.statistics()["misses"]) == 1


def test_marked_and_fixed():
    def program(x):
        q = x[None, None]
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=x.shape[0] / 3)

    x = tensor(5, 3)
    stator.mark_dynamic(x, 0)
    with pytest.raises(stator.SpecializedError) as raised:
        stator.compile(program, backend="eager")(x)
    assert "(x.size(0) / 3) must be 1.66" in str(raised.value)
    assert "test_12_reals.py" in str(raised.value)


def test_gradients():
    def loss(x):
        return ((x / math.sqrt(x.shape[1])).sin() * (x.shape[0] / 3)).sum()

    counting = Counting("aot_eager")
    compiled = stator.compile(loss, backend=counting, fullgraph=True, dynamic=True)
    for n in (3, 4, 7):
        given = [tensor(n, n + 1).requires_grad_() for _ in range(2)]
        compiled(given[0]).backward()
        loss(given[1]).backward()
        torch.testing.assert_close(given[0].grad, given[1].grad)
    assert len(counting.graphs) == 1
