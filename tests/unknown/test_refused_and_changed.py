"""Numbers that can't be, graphs that backends fail on, changes in a grad mode of their own."""

# mypy: ignore-errors

import warnings

import pytest
import torch

import stator

from .compared import checked

BOTH = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def part(x, p):
    cut = int((x > 100).sum())
    return x[: cut + 1][p].reshape(1)


@BOTH
@pytest.mark.parametrize("dynamic", [None, True])
def test_an_index_that_is_outside_of_an_unknown_part(backend, dynamic):
    compiled = stator.compile(part, backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="(?s).*failed here")  # what is ours to do
        for x in (torch.tensor([4.0]), torch.tensor([4.0, 2.0]), torch.full((5,), 200.0)):
            for p in (3, 0, 1):
                outcomes = []
                for function in (part, compiled):
                    try:
                        outcomes.append(function(x, p).tolist())
                    except IndexError as error:
                        outcomes.append(str(error))
                assert outcomes[0] == outcomes[1], (x, p)


@pytest.mark.parametrize("seed", [2005280, 2004797, 2007181])
def test_programs_that_were_wrong(seed):
    assert checked(seed)[1] == []


def changed(x, k):
    x = x * 1.0
    with torch.no_grad():
        for q in k.tolist():
            if q == 2:
                break
            x = x + q
    z = torch.ones(4)
    mask = z > 0
    x[mask] = z[mask]
    return x


def scaled(x, k):
    x = x * 1.0
    with torch.no_grad():
        stator.graph_break()
        k = k + 1
    x.mul_(3)
    x[1:].mul_(5)
    return x, k


@BOTH
@pytest.mark.parametrize("function", [changed, scaled])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_change_behind_a_block_without_grad(function, backend, dynamic):
    compiled = stator.compile(function, backend=backend, dynamic=dynamic)
    for k in ([2, 3, 3, 1], [0, 2, 1, 1], [2, 3, 3, 1], [1, 3, 2, 1], [2, 3, 3, 1], [2, 1, 1, 1]):
        found = []
        for each in (function, compiled):
            x = torch.zeros(4, requires_grad=True)
            result = each(x, torch.tensor(k))
            result = result[0] if type(result) is tuple else result
            if result.requires_grad:
                result.sum().backward()
            found.append((result.tolist(), result.requires_grad, x.grad))
        (plain, requires, gradient), (other, also, same) = found
        assert plain == other and requires is also
        assert gradient is same is None or torch.equal(gradient, same), k
