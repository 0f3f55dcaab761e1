"""Hooks that a program puts at tensors which a graph has made: called with a gradient, or not."""

# mypy: ignore-errors

import pytest
import torch

import stator

SEEN = []


class Hook:
    """Somebody's callable, which nobody asks for its attributes."""

    def __init__(self, factor):
        self.factor = factor

    def __getattr__(self, name):
        raise AssertionError(name)

    def __call__(self, grad):
        SEEN.append(grad.tolist())
        return grad * self.factor


def beside_another(x, hook):
    x = x * 1.0
    a = x[-2:].clone()
    a.register_hook(hook)
    return x, a + 1


def two_hooks(x, hook):
    a, b = x * 2, x.sin()
    a.register_hook(hook)
    b.register_hook(hook)
    return a, b


def removed(x, hook):
    a, b = x * 2, x.sin()
    handle = a.register_hook(hook)
    handle.remove()
    return a, b


def by_function(x, hook):
    a, b = x * 2, x.sin()
    torch.Tensor.register_hook(a, hook)
    return a, b * a


def ran(function, parts):
    SEEN.clear()
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = function(x, Hook(3))
    sum(found[part].sum() for part in parts).backward()
    return x.grad.tolist(), list(SEEN)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("parts", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("program", [beside_another, two_hooks, removed, by_function])
def test_hooks(program, parts, backend) -> None:
    compiled = stator.compile(program, backend=backend)
    for _ in range(2):
        assert ran(compiled, parts) == ran(program, parts)
