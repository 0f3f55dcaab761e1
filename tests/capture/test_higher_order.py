# mypy: ignore-errors
"""Operators that take functions run as a whole: none of their Python code is split."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as hmap

import stator

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        torch.manual_seed(0)
        s.a = nn.Linear(3, 3)
        s.b = nn.Linear(3, 3)

    def forward(s, x):
        x = x * 2
        y = torch.cond(x.sum() > 0, s.a, s.b, (x,))
        return y.sin()


@stories
def cond(c):
    m = M()
    f = c(m)
    r = []
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        y = f(x)
        r.append(y)
        y.sum().backward()
        r += [m.a.weight.grad, m.b.weight.grad]
    return r


@stories
def cond_fn(c):
    def g(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))

    f = c(g)
    x = leaf()
    y = f(x)
    y.sum().backward()
    return [y, x.grad]


@stories
def cond_const(c):
    def g(x, b):
        return torch.cond(b, lambda x: x * 2, lambda x: x * 3, (x,))

    f = c(g)
    x = leaf()
    return [f(x, True), f(x, False), attempt(f, x, 3)]


@stories
def map_(c):
    def g(xs, y):
        return hmap(lambda x, y: x * y, xs + 1, y)

    f = c(g)
    xs = torch.arange(6.0).view(2, 3).requires_grad_()
    y = leaf()
    o = attempt(f, xs, y)
    return [o, type(o).__name__]


@stories
def scan_(c):
    def comb(carry, x):
        return carry + x, carry * x

    def g(init, xs):
        return scan(comb, init * 1, xs, dim=0)

    f = c(g)
    o = attempt(
        f, torch.zeros(3, requires_grad=True), torch.arange(6.0).view(2, 3).requires_grad_()
    )
    return [o]


@stories
def while_(c):
    def g(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x + 1))

    f = c(g)
    return [attempt(f, torch.ones(3)), attempt(f, leaf())]


@stories
def assoc(c):
    def g(x):
        return associative_scan(lambda a, b: a + b, x * 1, 0, combine_mode="generic")

    f = c(g)
    x = torch.arange(6.0).view(3, 2).requires_grad_()
    o = attempt(f, x)
    return [o]


@stories
def flex(c):
    from torch.nn.attention.flex_attention import flex_attention

    def g(q, k, v):
        return flex_attention(q * 1, k, v)

    f = c(g)
    q = torch.randn(1, 1, 16, 16, requires_grad=True)
    o = attempt(f, q, q, q)
    return [o]


@stories
def invoke_sub(c):
    from torch.compiler import nested_compile_region

    @nested_compile_region
    def inner(x):
        return x.sin() * 2

    f = c(lambda x: inner(x + 1) * 3)
    x = leaf()
    y = attempt(f, x)
    return [y]


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_generic_scan_is_captured(length, reverse):
    """It is made of operators alone: none of its code asks whether it is compiled."""

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def scanned(x):
        return associative_scan(combine, (x * 2, x + 1), 1, reverse=reverse, combine_mode="generic")

    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = stator.compile(scanned, backend=backend, fullgraph=True)
    x = torch.rand(2, length, requires_grad=True)
    torch.testing.assert_close(compiled(x), scanned(x))
    ours, theirs = (torch.autograd.grad(f(x)[1].sum(), x) for f in (compiled, scanned))
    torch.testing.assert_close(ours, theirs)
    assert len(graphs) == 1
