# mypy: ignore-errors
"""Ways by which the backward of a torch.autograd.Function reads what may change before it runs."""

import threading

import pytest
import torch
from torch import nn

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()
Fn = torch.autograd.Function
LOG = []


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


class Reg:
    def __init__(s):
        s.k = 2.0

    def mul(s, g):
        return g * s.k


REG = Reg()
BOUND = REG.mul
D = {"k": 2.0}


def gets():
    return D["k"]


class ViaHelper(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * gets()


class ViaBound(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return BOUND(g)


class ViaDefault(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g, _d=D):
        return g * _d["k"]


class ViaCtxSelf(Fn):
    @staticmethod
    def forward(ctx, x, fn):
        ctx.fn = fn
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return ctx.fn(g), None


class ViaTuple(Fn):
    @staticmethod
    def forward(ctx, x, t):
        ctx.t = (1, t)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.t
        return g * b[0], None


class ViaGetattr(Fn):
    cfg = Reg()

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * getattr(ViaGetattr.cfg, "k")


class ViaVars(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * globals()["D"]["k"]


class ViaClosureFn(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1


def mk(k):
    def backward(ctx, g):
        return g * k[0]

    return staticmethod(backward)


KK = [2.0]
ViaClosureFn.backward = mk(KK)


class ViaIsinst(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.o = o
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return (g * 2 if len(ctx.o) == 2 else g * 3), None


class ViaIn(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.o = o
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return (g * 2 if 1 in ctx.o else g * 3), None


class ViaFor(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.o = o
        return x * 1

    @staticmethod
    def backward(ctx, g):
        for i in ctx.o:
            g = g * i
        return g, None


def changed_between(name, f, change, undo):
    def st(c):
        g = c(f)
        r = []
        for i in range(2):
            undo()
            x = leaf()
            y = g(x)
            r.append(x.grad)
            if i:
                change()
            y.sum().backward()
            r.append(x.grad)
        undo()
        x = leaf()
        g(x).sum().backward()
        r.append(x.grad)
        return r

    stories.add(name, st)


def setD(v):
    D["k"] = v


def setR(v):
    REG.k = v


changed_between("helper", lambda x: ViaHelper.apply(x) * 2, lambda: setD(7.0), lambda: setD(2.0))
changed_between("bound", lambda x: ViaBound.apply(x) * 2, lambda: setR(7.0), lambda: setR(2.0))
changed_between("default", lambda x: ViaDefault.apply(x) * 2, lambda: setD(7.0), lambda: setD(2.0))
changed_between(
    "ctxfn", lambda x: ViaCtxSelf.apply(x, REG.mul) * 2, lambda: setR(7.0), lambda: setR(2.0)
)
L = [2.0]


def setL(v):
    L[:] = v


changed_between(
    "tuple", lambda x: ViaTuple.apply(x, L) * 2, lambda: setL([7.0]), lambda: setL([2.0])
)
changed_between(
    "lenlist", lambda x: ViaIsinst.apply(x, L) * 2, lambda: setL([7.0, 1.0]), lambda: setL([2.0])
)
changed_between("inlist", lambda x: ViaIn.apply(x, L) * 2, lambda: setL([1]), lambda: setL([2.0]))
changed_between(
    "forlist", lambda x: ViaFor.apply(x, L) * 2, lambda: setL([1, 5]), lambda: setL([2.0])
)


def setC(v):
    ViaGetattr.cfg.k = v


changed_between("getattr_", lambda x: ViaGetattr.apply(x) * 2, lambda: setC(7.0), lambda: setC(2.0))
changed_between("globals_", lambda x: ViaVars.apply(x) * 2, lambda: setD(7.0), lambda: setD(2.0))


def setK(v):
    KK[0] = v


changed_between(
    "closurefn", lambda x: ViaClosureFn.apply(x) * 2, lambda: setK(7.0), lambda: setK(2.0)
)


@stories
def list_in_trace(c):
    def g(x):
        l = [2.0]
        y = ViaFor.apply(x, l) * 2
        l.append(5.0)
        return y

    f = c(g)
    x = leaf()
    f(x).sum().backward()
    return [x.grad]


@stories
def obj_in_trace(c):
    class O:
        pass

    def g(x):
        o = O()
        o.k = 2.0
        y = ViaObj.apply(x, o) * 2
        o.k = 9.0
        return y

    f = c(g)
    x = leaf()
    f(x).sum().backward()
    return [x.grad]


class ViaObj(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.o = o
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * ctx.o.k, None


class ForwardKeeps(Fn):
    kept = []

    @staticmethod
    def forward(ctx, x):
        ctx.l = [2.0]
        ForwardKeeps.kept.append(ctx.l)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * ctx.l[0]


@stories
def forward_keeps(c):
    ForwardKeeps.kept.clear()
    f = c(lambda x: ForwardKeeps.apply(x) * 2)
    x = leaf()
    y = f(x)
    ForwardKeeps.kept[-1][0] = 9.0
    y.sum().backward()
    return [x.grad]


@stories
def through_module(c):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.scale = 2.0

        def forward(s, x):
            return ViaObj2.apply(x, s) * 2

    m = M()
    f = c(m)
    x = leaf()
    y = f(x)
    m.scale = 7.0
    y.sum().backward()
    return [x.grad]


class ViaObj2(Fn):
    @staticmethod
    def forward(ctx, x, m):
        ctx.m = m
        return x * m.scale

    @staticmethod
    def backward(ctx, g):
        return g * ctx.m.scale, None


@stories
def no_grad_then_grad(c):
    f = c(lambda x: ViaHelper.apply(x) * 2)
    x = leaf()
    with torch.no_grad():
        a = f(x)
    b = f(x)
    b.sum().backward()
    return [a, b, x.grad, f(x.detach())]


@stories
def inference(c):
    f = c(lambda x: ViaHelper.apply(x) * 2)
    with torch.inference_mode():
        a = f(torch.ones(3))
    return [a, a.is_inference()]


@stories
def grad_inside(c):
    def g(x):
        y = ViaHelper.apply(x).sum()
        D["k"] = 9.0
        r = torch.autograd.grad(y, x)[0]
        D["k"] = 2.0
        return r

    return [attempt(c(g), leaf())]


@stories
def backward_inside(c):
    def g(x):
        y = Logs.apply(x).sum()
        LOG.append("a")
        y.backward()
        LOG.append("b")
        return x.grad

    LOG.clear()
    r = [attempt(c(g), leaf()), list(LOG)]
    LOG.clear()
    return r


class Logs(Fn):
    @staticmethod
    def forward(ctx, x):
        LOG.append("f")
        return x * 1

    @staticmethod
    def backward(ctx, g):
        LOG.append("b")
        return g * 2


class Pure(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0]


@stories
def pure_grad_inside(c):
    def g(x):
        y = Pure.apply(x).sum()
        return torch.autograd.grad(y, x)[0]

    return [attempt(c(g), leaf())]


@stories
def threads(c):
    f = c(lambda x: Pure.apply(x).sum() * 2)
    r = []

    def go():
        x = leaf()
        f(x).backward()
        r.append(x.grad)

    ts = [threading.Thread(target=go) for _ in range(3)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return r


@stories
def saved_none_accessed_after(c):
    f = c(lambda x: Pure.apply(x).sum())
    x = leaf()
    y = f(x)
    y.backward()
    return [attempt(y.backward)]


@stories
def detach_arg(c):
    f = c(lambda x: Pure.apply(x.detach()) * x)
    x = leaf()
    f(x).sum().backward()
    return [x.grad]


@stories
def same_twice(c):
    class TwoIn(Fn):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b * 2, g * a * 3

    f = c(lambda x: TwoIn.apply(x, x) * 2)
    x = leaf()
    f(x).sum().backward()
    return [x.grad]


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
