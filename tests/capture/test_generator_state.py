# mypy: ignore-errors
"""The random number generators are, after a call, where eager leaves them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def st():
    return torch.get_rng_state().tolist()[:40], torch.rand(2)


def runs(f, *args, n=2, **k):
    r = []
    for i in range(n):
        torch.manual_seed(5)
        r.append(attempt(f, *args, **k))
        r.append(st())
    return r


@stories
def dropout(c):
    f = c(lambda x: F.dropout(x, 0.5))
    return runs(f, torch.ones(10))


@stories
def dropout_grad(c):
    f = c(lambda x: F.dropout(x, 0.5).sum())
    x = torch.ones(10, requires_grad=True)
    r = runs(f, x)
    torch.manual_seed(1)
    y = f(x)
    y.backward()
    return r + [x.grad, st()]


@stories
def rand(c):
    return runs(c(lambda x: x + torch.rand(3)), torch.ones(3))


@stories
def rand_grad(c):
    return runs(c(lambda x: x * torch.rand(3)), leaf())


@stories
def unused_rand(c):
    def g(x):
        torch.rand(3)
        return x * 2

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def randn_like_etc(c):
    def g(x):
        return (
            torch.randn_like(x)
            + torch.bernoulli(torch.full_like(x, 0.5))
            + torch.randint(0, 9, (3,))
            + torch.normal(x, 1.0)
            + torch.empty(3).uniform_()
            + torch.randperm(3)
        )

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def multinomial(c):
    return runs(c(lambda x: torch.multinomial(x, 2)), torch.ones(5))


@stories
def raising(c):
    def g(x, i):
        y = x + torch.rand(3)
        return y[i] + torch.rand(1)

    f = c(g)
    x = torch.ones(3)
    return runs(f, x, torch.tensor([1])) + runs(f, x, torch.tensor([9]))


@stories
def raising_grad(c):
    def g(x, i):
        y = x * torch.rand(3)
        return y[i] + torch.rand(1)

    f = c(g)
    x = leaf()
    return runs(f, x, torch.tensor([1])) + runs(f, x, torch.tensor([9]))


@stories
def raising_py(c):
    def g(x, b):
        y = x * torch.rand(3)
        if b:
            raise ValueError("b")
        return y

    f = c(g)
    return runs(f, leaf(), False) + runs(f, leaf(), True)


@stories
def generator(c):
    gen = torch.Generator()
    gen.manual_seed(3)

    def g(x):
        return x + torch.rand(3, generator=gen)

    f = c(g)
    r = runs(f, torch.ones(3)) + [gen.get_state().tolist()[:30]]
    return r + runs(f, leaf()) + [gen.get_state().tolist()[:30]]


@stories
def ckpt(c):
    def g(x):
        return checkpoint(lambda y: F.dropout(y.sin(), 0.5), x, use_reentrant=False).sum()

    f = c(g)
    x = torch.ones(8, requires_grad=True)
    r = runs(f, x)
    torch.manual_seed(2)
    y = f(x)
    a = torch.rand(1)
    y.backward()
    return r + [y, a, x.grad, st()]


@stories
def ckpt_nopreserve(c):
    def g(x):
        return checkpoint(
            lambda y: F.dropout(y.sin(), 0.5), x, use_reentrant=False, preserve_rng_state=False
        ).sum()

    f = c(g)
    x = torch.ones(8, requires_grad=True)
    r = runs(f, x)
    torch.manual_seed(2)
    y = f(x)
    a = torch.rand(1)
    y.backward()
    return r + [y, a, x.grad, st()]


@stories
def ckpt_reentrant(c):
    def g(x):
        return checkpoint(lambda y: F.dropout(y.sin(), 0.5), x, use_reentrant=True).sum()

    f = c(g)
    x = torch.ones(8, requires_grad=True)
    r = runs(f, x)
    torch.manual_seed(2)
    y = f(x)
    a = torch.rand(1)
    y.backward()
    return r + [y, a, x.grad, st()]


@stories
def seeded_inside(c):
    def g(x):
        torch.manual_seed(7)
        return x + torch.rand(3)

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def fork(c):
    def g(x):
        with torch.random.fork_rng():
            y = torch.rand(3)
        return x + y + torch.rand(3)

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def step(c):
    m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    opt = torch.optim.SGD(m.parameters(), lr=0.1)

    def g(x):
        opt.zero_grad()
        l = m(x).sum()
        l.backward()
        opt.step()
        return l

    return runs(c(g), torch.ones(2, 3), n=3) + [m[0].weight]


@stories
def rnn(c):
    m = nn.LSTM(3, 3, 2, dropout=0.5)
    return runs(c(lambda x: m(x)[0].sum()), torch.ones(2, 2, 3))


@stories
def mha(c):
    m = nn.MultiheadAttention(4, 2, dropout=0.5)
    return runs(c(lambda x: m(x, x, x)[0].sum()), torch.ones(3, 2, 4))


@stories
def sdpa(c):
    f = c(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).sum())
    q = torch.ones(1, 1, 4, 4, requires_grad=True)
    r = runs(f, q)
    y = f(q)
    y.backward()
    return r + [q.grad, st()]


@stories
def rrelu(c):
    f = c(lambda x: F.rrelu(x, training=True))
    return runs(f, -torch.ones(4)) + runs(f, -torch.ones(4, requires_grad=True))


@stories
def gumbel(c):
    f = c(lambda x: F.gumbel_softmax(x))
    return runs(f, torch.ones(2, 4)) + runs(f, torch.ones(2, 4, requires_grad=True))


@stories
def breaks(c):
    def g(x):
        y = x + torch.rand(3)
        stator.graph_break()
        return y * torch.rand(3)

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def branch(c):
    def g(x):
        y = x + torch.rand(3)
        if y.sum() > 4.5:
            return y * torch.rand(3)
        return y

    f = c(g)
    r = []
    for s in range(6):
        torch.manual_seed(s)
        r += [f(torch.ones(3)), st()]
    for s in range(6):
        torch.manual_seed(s)
        r += [f(leaf()), st()]
    return r


@stories
def init(c):
    def g(x):
        w = torch.empty(3, 3)
        nn.init.kaiming_uniform_(w)
        nn.init.trunc_normal_(w)
        return x @ w

    return runs(c(g), torch.ones(2, 3))


@stories
def dropouts(c):
    def g(x):
        return (
            F.alpha_dropout(x, 0.5, True)
            + F.dropout1d(x, 0.5)
            + F.feature_alpha_dropout(x, 0.5, True)
        )

    return runs(c(g), torch.ones(2, 3, 4)) + runs(c(g), torch.ones(2, 3, 4, requires_grad=True))


@stories
def layer_made(c):
    def g(x):
        return nn.Linear(3, 3)(x)

    return runs(c(g), torch.ones(2, 3))


@stories
def cauchy_etc(c):
    def g(x):
        a = torch.empty(3)
        return (
            x
            + a.cauchy_()
            + torch.empty(3).exponential_()
            + torch.empty(3).geometric_(0.5)
            + torch.empty(3).log_normal_()
            + torch.empty(3).random_()
            + torch.poisson(torch.ones(3))
            + torch.binomial(torch.ones(3) * 4, torch.ones(3) * 0.5)
        )

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def rng_get(c):
    def g(x):
        s = torch.get_rng_state()
        y = x + torch.rand(3)
        torch.set_rng_state(s)
        return y + torch.rand(3)

    return runs(c(g), torch.ones(3)) + runs(c(g), leaf())


@stories
def initial(c):
    f = c(lambda x: x * 2)
    return runs(f, torch.ones(3)) + [torch.initial_seed()]


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
