# mypy: ignore-errors
"""What a call is given lives as long as in eager: no trace or compile keeps it."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

from .stories import BACKENDS

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


class W(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(3, 3)

    def forward(s, x):
        return s.l(x).relu()


class Obj:
    def __init__(s):
        s.v = 2.0
        s.items = [1, 2]


def T(**k):
    return torch.ones(3, **k)


CASES = {}


def case(f):
    """What the case keeps, and what has to die with its last reference."""
    CASES[f.__name__] = f
    return f


def brk(x):
    stator.graph_break()
    return x


@case
def plain(c):
    f = c(lambda x: x * 2 + 1)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def grad(c):
    f = c(lambda x: (x * 2).sin())
    x = T(requires_grad=True)
    y = f(x)
    return [f], [x, y]


@case
def grad_bw(c):
    f = c(lambda x: (x * 2).sin().sum())
    x = T(requires_grad=True)
    y = f(x)
    y.backward()
    return [f], [x, y]


@case
def module(c):
    m = W()
    f = c(m)
    x = T()
    y = f(x)
    return [], [x, y, m, m.l.weight, f]


@case
def module_fn(c):
    m = W()
    f = c(lambda m, x: m(x))
    x = T()
    y = f(m, x)
    return [f], [x, y, m, m.l.weight]


@case
def obj(c):
    def g(o, x):
        o.v += 1
        o.items.append(3)
        return x * o.v

    f = c(g)
    o = Obj()
    x = T()
    y = f(o, x)
    return [f], [x, y, o]


@case
def breaks(c):
    def g(x):
        y = x * 2
        y = brk(y)
        return y + 1

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def breaks_obj(c):
    def g(o, x):
        y = x * 2
        o.v = y
        stator.graph_break()
        return y + 1

    f = c(g)
    x = T()
    o = Obj()
    y = f(o, x)
    return [f], [x, y, o]


@case
def raises(c):
    def g(x):
        y = x * 2
        raise ValueError("a")

    f = c(g)
    x = T()
    try:
        f(x)
    except ValueError as e:
        pass
    return [f], [x]


@case
def raises_op(c):
    def g(x):
        return x @ torch.ones(5, 5)

    f = c(g)
    x = T()
    try:
        f(x)
    except RuntimeError as e:
        pass
    return [f], [x]


@case
def raises_rt(c):
    def g(x, i):
        return x[i]

    f = c(g)
    x = T()
    i = torch.tensor([9])
    try:
        f(x, i)
    except IndexError as e:
        pass
    return [f], [x, i]


@case
def handled(c):
    def g(x):
        try:
            raise ValueError("a")
        except ValueError as e:
            return x * 2

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def recompiles(c):
    f = c(lambda x: x * 2)
    xs = [torch.ones(i) for i in range(2, 6)]
    ys = [f(x) for x in xs]
    return [f], xs + ys


@case
def branch(c):
    def g(x):
        return x * 2 if x.sum() > 0 else x * 3

    f = c(g)
    x = T()
    y = f(x)
    z = -T()
    w = f(z)
    return [f], [x, y, z, w]


@case
def item(c):
    def g(x):
        return x * x.sum().item()

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def fullgraph_fail(c):
    f = stator.compile(lambda x: brk(x), fullgraph=True, backend="eager")
    x = T()
    try:
        f(x)
    except stator.CaptureError:
        pass
    return [f], [x]


@case
def closure(c):
    def g(x):
        def h(y):
            return y * 2

        return h(x)

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def gen(c):
    def g(x):
        return sum(x * i for i in range(3))

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def printing(c):
    def g(x):
        s = f"{x}"
        return x * 2, s

    f = c(g)
    x = T()
    y = f(x)[0]
    return [f], [x, y]


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@case
def func(c):
    f = c(lambda x: Fn.apply(x).sin())
    x = T(requires_grad=True)
    y = f(x)
    return [f], [x, y]


@case
def ckpt(c):
    from torch.utils.checkpoint import checkpoint

    f = c(lambda x: checkpoint(torch.sin, x, use_reentrant=False))
    x = T(requires_grad=True)
    y = f(x)
    return [f], [x, y]


@case
def step(c):
    m = W()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    def g(x):
        o.zero_grad()
        l = m(x).sum()
        l.backward()
        o.step()
        return l

    f = c(g)
    x = T()
    y = f(x)
    return [f, m, o], [x, y]


@case
def vmapped(c):
    f = c(lambda x: torch.vmap(torch.sin)(x))
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def grads(c):
    f = c(lambda x: torch.func.grad(lambda y: (y * y).sum())(x))
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def subclass(c):
    class S(torch.Tensor):
        pass

    f = c(lambda x: x * 2)
    x = T().as_subclass(S)
    y = f(x)
    return [f], [x, y]


@case
def kw(c):
    f = c(lambda *a, **k: a[0] * k["b"])
    x = T()
    b = T()
    y = f(x, b=b)
    return [f], [x, y, b]


@case
def lists(c):
    f = c(lambda l: [i * 2 for i in l])
    l = [T(), T()]
    y = f(l)
    return [f], l + y


@case
def dynamic(c):
    f = stator.compile(lambda x: x.reshape(-1) * x.shape[0], backend="aot_eager", dynamic=True)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def numpyc(c):
    f = c(lambda x: torch.from_numpy(x.numpy() * 2))
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def explain(c):
    x = T()
    e = stator.explain(lambda x: brk(x * 2))
    r = e(x) if callable(e) else None
    del r
    return [], [x]


@case
def rand(c):
    f = c(lambda x: F.dropout(x))
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def inplace(c):
    def g(x):
        x.add_(1)
        return x

    f = c(g)
    x = T()
    y = f(x)
    return [f], [x]


@case
def hooks(c):
    def g(x):
        y = x * 2
        y.register_hook(lambda g: g)
        return y

    f = c(g)
    x = T(requires_grad=True)
    y = f(x)
    return [f], [x]


@case
def disabled(c):
    @stator.disable
    def d(x):
        return x * 3

    f = c(lambda x: d(x * 2) + 1)
    x = T()
    y = f(x)
    return [f], [x, y]


@case
def method(c):
    class K:
        def __init__(s):
            s.w = T()

        def go(s, x):
            return x * s.w

    k = K()
    f = c(k.go)
    x = T()
    y = f(x)
    return [], [x, y, k, k.w, f]


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_what_a_call_was_given_dies_with_its_last_reference(name, backend):
    for attempt in range(2):  # the first use of a backend may import something
        stator.reset()
        kept, values = CASES[name](lambda f: stator.compile(f, backend=backend))
        gone = [weakref.ref(value) for value in values]
        del values
        alive = [i for i, reference in enumerate(gone) if reference() is not None]
    assert not alive


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_call_of_a_process_keeps_nothing(backend):
    program = f"""
import weakref
import torch
import stator

compiled = stator.compile(lambda x: x * 2 + 1, backend={backend!r})
x = torch.ones(3)
y = compiled(x)
given, made = weakref.ref(x), weakref.ref(y)
del x, y
assert given() is None and made() is None
"""
    subprocess.run([sys.executable, "-c", program], check=True)
