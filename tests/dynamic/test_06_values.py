# mypy: ignore-errors
"""Sizes and ints that are left open, together with numbers that are read from tensors."""

import pytest
import torch

from .harness import compare, tensor


def selected(x, y, t):
    return x[int(t)] * 2


def sliced(x, y, t):
    n = int(t)
    return x[:n] * 2, x[n:]


def stated(x, y, t):
    n = int(t)
    torch._check(n < x.shape[0])
    return x * n


def insisted_on(x, y, t):
    n = t.item()
    assert n < x.shape[0]
    return x * n


def of_a_tensor_that_is_not_used(x, y, t):
    n = int(t)
    assert n < x.shape[0]
    return y * n


def of_its_strides(x, y, t):
    n = int(t)
    bound = 2 * x.shape[0] - x.stride(0)
    assert n < bound
    return y * n


def divided(x, y, t):
    n = int(t)
    return x * (x.shape[0] // n), n + x.shape[0]


def branch(x, y, t):
    return x + 1 if int(t) * 2 > x.shape[0] else x - 1


def masked(x, y, t):
    return x[x > 0] * x.shape[0], x.nonzero().shape


PROGRAMS = [
    selected,
    sliced,
    stated,
    insisted_on,
    of_a_tensor_that_is_not_used,
    of_its_strides,
    divided,
    branch,
    masked,
]
CALLS = [(4, 2), (5, 3), (6, 1), (6, 5), (6, 6), (6, 9), (3, -1), (7, 0), (5, -9), (8, 7), (8, 8)]
CALLS += [(1, 0), (0, 0), (0, 1), (4, 3), (4, 4), (2, 2), (9, 1), (3, 5), (5, 0)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_sizes_and_values(program, backend, dynamic):
    calls = [lambda c=c: (tensor(c[0], 3), tensor(2), torch.tensor(c[1])) for c in CALLS]
    found = compare(program, calls, backend, dynamic)
    assert found.graphs


def test_an_input_that_is_changed():
    """What a graph would have to put back is asked for nothing: no size is fixed by that."""

    def program(x, t):
        x += int(t)
        return x.mul_(2) if int(t) > 2 else x

    calls = [lambda n=n: (tensor(n, 3), torch.tensor(n)) for n in range(3, 12)]
    assert compare(program, calls, dynamic=True, fullgraph=True).compiles == 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_int_that_is_not_used(dynamic):
    def program(k, y, t):
        n = int(t)
        assert n < k
        return y * n

    calls = [lambda c=c: (c[0], tensor(2), torch.tensor(c[1])) for c in CALLS]
    compare(program, calls, dynamic=dynamic)
