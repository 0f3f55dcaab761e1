# mypy: ignore-errors
"""Breaks in modules: in a submodule's forward, in hooks, between layers, with gradients."""

import pytest
import torch
from torch import nn

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, module, t
from .kinds import BREAK

constructs = Constructs()


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = BREAK(self.up(x).relu())
        self.seen += 1
        self.calls += 1
        return y * self.calls


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Inner()
        self.second = Inner()
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        return self.norm(x + self.second(self.first(x)))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.table = nn.ModuleDict({"a": nn.ReLU()})

    def forward(self, x):
        for name, layer in self.layers.named_children():
            x = BREAK(layer(x)) + len(name)
        return self.table["a"](x)


def given(build):
    return lambda: (module(build), t(2, 3))


@constructs(given(Inner), backward=True)
def break_in_forward(m, x):
    return m(x) + 1


@constructs(given(Outer), backward=True)
def break_in_submodules(m, x):
    return m(x).sum()


@constructs(given(Layers), backward=True)
def break_between_layers(m, x):
    return m(x) * 2


@constructs(given(lambda: nn.Sequential(nn.Linear(3, 3), Inner(), nn.Tanh())))
def sequential(m, x):
    y = m(x)
    return BREAK(y) * 2, m[1].calls


@constructs(given(Inner))
def same_module_twice(m, x):
    return m(m(x) + 1)


@constructs(given(Inner))
def eval_mode(m, x):
    m.eval()
    y = m(x)
    m.train()
    return y, m.training


def before(m, args):
    return (BREAK(args[0]) * 2,)


def after(m, args, result):
    return BREAK(result) + 1


def hooked():
    made = module(Inner)
    made.register_forward_pre_hook(before)
    made.register_forward_hook(after)
    return made, t(2, 3)


@constructs(hooked, anew=True, whole=True)  # keys of hooks are never the same
def hooks(m, x):
    return m(x) * 3


@constructs(given(lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))))
def dropout(m, x):
    y = m(x)
    y = BREAK(y)
    return m(y)


@constructs(given(lambda: nn.BatchNorm1d(3)))
def batch_norm(m, x):
    y = m(x)
    y = BREAK(y)
    return m(y), m.running_mean


@constructs(given(Inner))
def parameters(m, x):
    total = sum(p.sum() for p in m.parameters())
    y = BREAK(x)
    return total + sum(p.numel() for p in m.parameters()) + y


@constructs(given(Inner))
def state_changes(m, x):
    m.extra = x * 2
    y = BREAK(x)
    m.up.weight.data.mul_(2)
    m.other = [m.extra]
    return m(y)


@constructs(lambda: (module(Inner), t(2, 3), []), whole=True)
def training_step(m, x, losses):
    loss = m(x).square().mean()
    losses.append(BREAK(loss.detach()))
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p.sub_(p.grad, alpha=0.1)
            p.grad = None
    return losses


class Config:
    def __init__(self, n):
        self.n = n


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.inner = Inner()

    def forward(self, x, mask=None, *, scale=1):
        if mask is not None:
            x = BREAK(x * mask)
        x = self.inner(x)
        return self.finish(x, scale)

    def finish(self, x, scale):
        return BREAK(x) * scale + self.config.n


@constructs(lambda: (module(Configured, Config(2)), t(2, 3), t(2, 3)))
def keyword_arguments(m, x, mask):
    return m(x, mask=mask, scale=2) + m(x, scale=3)


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_modules(construct, kind, depth):
    check(construct, kind, depth)
