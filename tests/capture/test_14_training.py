# mypy: ignore-errors
"""Training: gradients, optimizers between calls, autograd functions, checkpoints, hooks."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.versions import TORCH

from . import harness
from .harness import Program, Programs, Recording, check, ints, module, t

programs = Programs()


def net():
    return module(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def gradients_of_two_inputs(x, y):
    return (x * y).sum() + y.pow(2).sum()


@programs(lambda: (net(), t(5, 4), ints(5, high=3)))
def loss_of_a_network(m, x, y):
    return F.cross_entropy(m(x), y)


@programs(lambda: (net(), t(5, 4, grad=True)))
def several_outputs(m, x):
    h = m[0](x)
    return h, m(x).mean(), x * 2


@programs(lambda: (t(3, grad=True),))
def output_that_needs_no_gradient(x):
    return x * 2, (x * 3).detach(), x > 0


@programs(lambda: (t(3, grad=True),))
def view_of_an_input(x):
    return x[1:] * 2, x.view(3, 1)


@programs(lambda: (t(3, grad=True),))
def input_used_twice(x):
    return x * x + x.sum() * x


@programs(lambda: (t(4, 4, grad=True),))
def in_place_on_an_intermediate(x):
    y = x * 2
    y.add_(1).mul_(x)
    y[0] = 0
    return y


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.n + x, None


@programs(lambda: (t(3, grad=True),))
def autograd_function(x):
    return Double.apply(x, 3) + 1


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


@programs(lambda: (t(3, grad=True),))
def straight_through_estimator(x):
    return Straight.apply(x * 3) * x


def block(x, w):
    return torch.tanh(x @ w) * 2


# Before 2.13, torch itself makes empty tensors in eager.
@programs(lambda: (t(3, 3, grad=True), t(3, 3, grad=True)), free=TORCH < (2, 13))
def checkpointed(x, w):
    return checkpoint(block, x, w, use_reentrant=False).sum()


@programs(lambda: (t(3, grad=True),))
def hook_registered_inside(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    return y * 3


@programs(lambda: (t(3, grad=True),))
def retain_grad(x):
    y = x * 2
    y.retain_grad()
    return y, y.sum()


@programs(lambda: (t(3, grad=True),))
def gradient_inside(x):
    y = (x**3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return g * 2


@programs(lambda: (t(3),), free=True)
def requires_grad_set_inside(x):
    y = x.detach().requires_grad_()
    return y * 2


@programs(lambda: (net(), copy.deepcopy(net()), t(5, 4)))
def exponential_moving_average(m, average, x):
    with torch.no_grad():
        for p, q in zip(m.parameters(), average.parameters()):
            q.mul_(0.9).add_(p, alpha=0.1)
    return m(x)


@programs(lambda: (net(), t(5, 4)))
def gradient_penalty_by_norm(m, x):
    return m(x).sum() + 0.1 * sum(p.pow(2).sum() for p in m.parameters())


@programs(
    lambda: (net(), t(5, 4)), changes={"frozen": lambda: (net().requires_grad_(False), t(5, 4))}
)
def partly_frozen(m, x):
    return m(x)


@programs(
    lambda: (module(nn.BatchNorm1d, 4), t(5, 4)),
    changes={"mode": lambda: (module(nn.BatchNorm1d, 4).eval(), t(5, 4))},
)
def train_and_eval(m, x):
    return m(x)


@programs(lambda: (net(), t(5, 4), t(5, 4)))
def shared_weights(m, a, b):
    return (m(a) * m(b)).sum()


@programs(lambda: (t(3, dtype=torch.float64, grad=True),))
def double_precision(x):
    return (x.sin() * x.exp()).sum()


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


def loss(m, x, y):
    return F.mse_loss(m(x), y)


def trained(fn, optimizer, steps=4, seed=3):
    """The parameters after some steps, each on another batch."""
    harness._generator.manual_seed(seed)
    m = net()
    opt = optimizer(m.parameters())
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        value = fn(m, t(5, 4), t(5, 3))
        value.backward()
        opt.step()
        losses.append(value.detach())
    return losses, list(m.parameters())


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
}


def compiled(fn):
    harness.reset_engine()
    backend = Recording()
    return harness.compile_with(fn, backend=backend, fullgraph=True), backend


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_between_calls_need_no_recompilation(name) -> None:
    fn, backend = compiled(loss)
    expected = trained(loss, OPTIMIZERS[name])
    found = trained(fn, OPTIMIZERS[name])
    assert len(backend.graphs) == 1
    assert harness.describe(found) == harness.describe(expected)
    assert fn.statistics()["misses"] == 1


def test_backward_twice() -> None:
    fn, _ = compiled(loss)
    harness._generator.manual_seed(1)
    m, x, y = net(), t(5, 4), t(5, 3)
    value = fn(m, x, y)
    value.backward(retain_graph=True)
    once = [p.grad.clone() for p in m.parameters()]
    value.backward()
    assert all(torch.equal(p.grad, 2 * g) for p, g in zip(m.parameters(), once))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        value.backward()


def test_gradients_accumulate_over_calls() -> None:
    fn, backend = compiled(loss)
    grads = []
    for f in (loss, fn):
        harness._generator.manual_seed(1)
        m = net()
        for _ in range(3):
            f(m, t(5, 4), t(5, 3)).backward()
        grads.append([p.grad for p in m.parameters()])
    assert harness.same(*grads)
    assert len(backend.graphs) == 1


def test_switching_modes_compiles_each_once() -> None:
    def run(m, x):
        return m(x)

    fn, backend = compiled(run)
    harness._generator.manual_seed(1)
    m, x = module(nn.Dropout, 0.5), t(5, 4)
    for _ in range(3):
        for mode in (True, False):
            m.train(mode)
            fn(m, x)
    assert len(backend.graphs) <= 2
    assert fn.statistics()["misses"] == 2


def test_gradient_in_and_out_of_no_grad() -> None:
    fn, backend = compiled(loss)
    harness._generator.manual_seed(1)
    m, x, y = net(), t(5, 4), t(5, 3)
    with torch.no_grad():
        assert not fn(m, x, y).requires_grad
    assert fn(m, x, y).requires_grad
    with torch.no_grad():
        assert not fn(m, x, y).requires_grad
    assert len(backend.graphs) == 2
