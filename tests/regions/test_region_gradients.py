# mypy: ignore-errors
"""Results of regions that get no gradient: parameters behind them get none, and no nan."""

import pytest
import torch
from torch import nn

import stator

from .test_nested import Seen

region = stator.nested_compile_region
BACKENDS = ["eager", "aot_eager"]


def same(program, *args, bodies):
    """The gradients are those of eager: None where these are None."""
    seen = Seen()
    for backend in (seen, *BACKENDS):
        stator.reset()
        compiled = stator.compile(program, backend=backend, fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(gradients(compiled, args), gradients(program, args))
    assert seen.bodies() == bodies


def gradients(function, args):
    given = [each.clone().detach().requires_grad_() for each in args]
    result = function(*given)
    total = sum(each.sum() for each in result if each.requires_grad)
    return torch.autograd.grad(total, given, allow_unused=True)


@region
def pair(x, w, u):
    return x * w, x * u


@region
def chain(x, k, w, u):
    return x * w, k * u


@region
def mixed(x, w, u):
    return (x * w).sin(), x.sqrt() * u, x.argmax()


ARGS = [torch.tensor([0.0, 1.0, 2.0]), *torch.randn(3, 3)]


def unused(x, w, u, v):
    for each in (u, v, u):
        x, _ = pair(x, w, each)
    return (x,)


def used_as_a_number(x, w, u, v):
    (a, b), (c, d) = pair(x, w, u), pair(x, v, u)
    return a + b.detach(), c, d.argmax()


def infinite_derivative(x, w, u, v):
    a, b, _ = mixed(x, w, u)
    c, d, _ = mixed(x, v, u)
    return a, c + d.detach(), b.detach()


def used_by_a_region_in_vain(x, w, u, v):
    k = x
    for each in (u, u, v):
        x, k = chain(x * 1, k * 1, w, each)
    return (x,)


def changed_in_place(x, w, u, v):
    (a, b), (c, d) = pair(x, w, u), pair(x, w, v)
    a = a * 1
    a.add_(b)
    return a, c, d.detach()


def by_a_view(x, w, u, v):
    (a, _), (c, d) = pair(x, w, u), pair(x, w, v)
    a[1:].copy_(d[1:])
    return a, c


@pytest.mark.parametrize(
    ("program", "bodies"),
    [
        (unused, [[3]]),
        (used_as_a_number, [[2]]),
        (infinite_derivative, [[2]]),
        (used_by_a_region_in_vain, [[3]]),
        (changed_in_place, [[1, 1]]),
        (by_a_view, [[1, 1]]),
    ],
)
def test_as_in_eager(program, bodies):
    same(program, *ARGS, bodies=bodies)


def test_calls_that_differ_have_bodies_of_their_own():
    def program(x, w, u, v):
        a, _ = pair(x, w, u)
        b, _ = pair(a, w, u)
        c, d = pair(b, w, v)
        e, f = pair(c, w, v)
        _, g = pair(e, w, u)
        return e, d, f, g

    same(program, *ARGS, bodies=[[1, 2, 2]])


@region
def differentiates(x, u):
    (g,) = torch.autograd.grad((x * u).sum(), [x], retain_graph=True)
    return g * 2


def differentiated_in_the_graph(x, w, u, v):
    (a, b), (c, d) = pair(x, w, u), pair(x, v, u)
    (g,) = torch.autograd.grad(b.sum(), [u], retain_graph=True)
    return a.detach() * g, c.detach(), d.detach()


def differentiated_in_a_region(x, w, u, v):
    (a, b), (c, d) = pair(x, w, u), pair(x, v, u)
    return a.detach() * differentiates(b, u).detach(), differentiates(d, v).detach(), c.detach()


def differentiated_backwards(x, w, u, v):
    (a, b), (c, d) = pair(x, w, u), pair(x, v, u)
    (b * 2).sum().backward()
    return a.detach(), c.detach(), d.detach(), u.grad.clone()


@pytest.mark.parametrize(
    "program", [differentiated_in_the_graph, differentiated_in_a_region, differentiated_backwards]
)
def test_the_graph_goes_back_through_regions_itself(program):
    """What it takes gradients of is no result of it, and keeps its gradient."""
    raised = []

    def backend(module, inputs):
        def run(*args):
            try:
                return module(*args)
            except RuntimeError as error:
                raised.append(error)
                raise

        return run

    for chosen in (backend, *BACKENDS):
        stator.reset()
        compiled = stator.compile(program, backend=chosen, fullgraph=True)
        for _ in range(2):
            wanted, given = ([x.clone().requires_grad_() for x in ARGS] for _ in range(2))
            assert_equal(compiled(*given), program(*wanted))
            assert_equal([each.grad for each in given], [each.grad for each in wanted])
    assert not raised


def assert_equal(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.gate = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return torch.tanh(self.one(x)) + x, weights


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return x


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_optimizer_leaves_what_is_not_trained(backend):
    plain, model = Stack(), Stack()
    compiled = stator.compile(model, backend=backend, fullgraph=True, regions="auto")
    x = torch.randn(3, 4)
    for owner, function in ((plain, plain), (model, compiled)):
        optimizer = torch.optim.AdamW(owner.parameters(), lr=0.1, weight_decay=0.5)
        for _ in range(2):
            function(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(model.layers[2].gate.weight, Stack().layers[2].gate.weight)
    for one, two in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(two, one)
