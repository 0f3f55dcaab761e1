# mypy: ignore-errors
"""Inductor's code with sizes left open."""

import pytest
import torch
from torch import nn

import stator
from tests.unknown.inductor import without_kernels

from .harness import compare, tensor


def test_shapes():
    def program(x, y):
        return (x + y).relu() * x.shape[0], torch.cat([x, y], 1), x.shape

    sizes = [(4, 3), (5, 3), (6, 7), (2, 9), (8, 2), (3, 5)]
    calls = [lambda s=s: (tensor(*s), tensor(*s)) for s in sizes]
    found = compare(program, calls, "inductor")
    assert found.compiles == 3  # static, one size open, both


def test_training_with_a_counter():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return self.linear(x).sigmoid() * self.steps

    torch.manual_seed(0)
    model, eager = Model(), Model()
    eager.load_state_dict(model.state_dict())
    compiled = stator.compile(model)
    for n in (4, 5, 7, 2, 9):
        for run, each in ((compiled, model), (eager, eager)):
            each.zero_grad()
            run(tensor(n, 3)).sum().backward()
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    assert model.steps == 5


def test_a_loop_with_breaks():
    def program(x, n):
        for i in range(n):
            x = x * 0.5 + i
            stator.graph_break()
        return x

    found = compare(program, [lambda: (tensor(3), 100)], "inductor", limit=4)
    assert not found.warned


def flattened(x, y, w):
    return (x.reshape(-1).sin() * w).exp().sum()


def joined(x, y, w):
    return (torch.cat([x.sin(), y]) * w).sigmoid().sum()


def made_of_a_size(x, y, w):
    mask = torch.where(x[:, 0] > 0, 1, 0).repeat(3)
    return (torch.ones(x.shape[0] * 3 + 1) * w).exp()[:-1].mul(mask).sum()


def multiplied(x, y, w):
    return (x[:, None] * y).flatten().mul(w).tanh().sum()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [flattened, joined, made_of_a_size, multiplied])
def test_the_backward_knows_the_sizes_that_others_are_computed_from(program, dynamic):
    compiled = stator.compile(program, dynamic=dynamic)
    w = torch.tensor(0.5, requires_grad=True)
    with without_kernels():
        for rows, others in ((4, 3), (6, 5), (7, 2)):
            given = tensor(rows, 5), tensor(others, 5)
            if program is multiplied:
                given = given[0], tensor(rows, 1, 5)
            (found,) = torch.autograd.grad(compiled(*given, w), w)
            (wanted,) = torch.autograd.grad(program(*given, w), w)
            torch.testing.assert_close(found, wanted)
