# mypy: ignore-errors
"""`requires_grad` of an input that is on, or off, for a part of the call only."""

import pytest
import torch

import stator


def by_grad(x):
    x.requires_grad_()
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
    x.requires_grad_(False)
    return gradient


def by_backward(x):
    x.requires_grad_()
    (x * x).sum().backward()
    x.requires_grad_(False)
    gradient, x.grad = x.grad, None
    return gradient


def of_the_result(x):
    x.requires_grad = True
    y = x * x
    x.requires_grad = False
    return y


def before_a_break(x):
    gradient = by_grad(x)
    stator.graph_break()
    return gradient * x


def off_and_on(x):
    x.requires_grad = not x.requires_grad
    y = x.detach() * 2
    x.requires_grad = not x.requires_grad
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [by_grad, by_backward, of_the_result, before_a_break])
def test_on_for_a_while(function, backend):
    compiled = stator.compile(function, backend=backend)
    for _ in range(2):
        plain, given = torch.arange(3.0), torch.arange(3.0)
        expected, found = function(plain), compiled(given)
        assert found.tolist() == expected.tolist()
        assert (given.requires_grad, given.grad) == (plain.requires_grad, plain.grad)
        assert found.requires_grad == expected.requires_grad
        if found.requires_grad:
            expected.sum().backward()
            found.sum().backward()
            # autograd gives nothing to a leaf that does not require grad any more
            assert plain.grad is None and given.grad is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("grad", [False, True])
def test_there_and_back(grad, backend):
    compiled = stator.compile(off_and_on, backend=backend)
    given = torch.arange(3.0, requires_grad=grad)
    assert compiled(given).tolist() == [0.0, 2.0, 4.0]
    assert given.requires_grad is grad
