# mypy: ignore-errors
"""What the backward of a torch.autograd.Function sees and does is of the time when it runs."""

import threading

import pytest
import torch
from torch import nn

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()
Fn = torch.autograd.Function
SCALE = 2.0


class O:
    pass


CFG = O()
CFG.k = 2.0
LST = [2.0]
LOG = []


class GlobalRead(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * SCALE


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


@stories
def global_changed(c):
    global SCALE
    SCALE = 2.0
    f = c(lambda x: GlobalRead.apply(x).sum())
    x = leaf()
    r = []
    for s in (2.0, 5.0, 7.0):
        SCALE = 2.0
        x.grad = None
        y = f(x)
        SCALE = s
        y.backward()
        r.append(x.grad.clone())
    SCALE = 2.0
    return r


class AttrRead(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.o = o
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.o.k, None


@stories
def attr_changed(c):
    o = O()
    o.k = 2.0
    f = c(lambda x: AttrRead.apply(x, o).sum())
    x = leaf()
    r = []
    for s in (2.0, 5.0):
        o.k = 2.0
        x.grad = None
        y = f(x)
        o.k = s
        y.backward()
        r.append(x.grad.clone())
    return r


class ListRead(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * LST[0]


@stories
def list_changed(c):
    f = c(lambda x: ListRead.apply(x).sum())
    x = leaf()
    r = []
    for s in (2.0, 5.0):
        LST[0] = 2.0
        x.grad = None
        y = f(x)
        LST[0] = s
        y.backward()
        r.append(x.grad.clone())
    LST[0] = 2.0
    return r


class ClassRead(Fn):
    factor = 2.0

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * ClassRead.factor


@stories
def class_changed(c):
    f = c(lambda x: ClassRead.apply(x).sum())
    x = leaf()
    r = []
    for s in (2.0, 5.0):
        ClassRead.factor = 2.0
        x.grad = None
        y = f(x)
        ClassRead.factor = s
        y.backward()
        r.append(x.grad.clone())
    ClassRead.factor = 2.0
    return r


class BackReplaced(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 2


@stories
def closure_changed(c):
    k = 2.0

    class C(Fn):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * k

    f = c(lambda x: C.apply(x).sum())
    x = leaf()
    r = []
    for s in (2.0, 5.0):
        k = 2.0
        x.grad = None
        y = f(x)
        k = s
        y.backward()
        r.append(x.grad.clone())
    return r


class Raises(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        raise ValueError("no way")


@stories
def raises(c):
    f = c(lambda x: Raises.apply(x).sum())
    x = leaf()
    r = []
    y = attempt(f, x)
    r.append(y)
    r.append(attempt(y.backward))
    r.append(x.grad)
    r.append(attempt(f, x.detach()))
    return r


class RaisesIf(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        if CFG.k > 5:
            raise ValueError("k")
        return g


@stories.eager
def raises_if(c):
    f = c(lambda x: RaisesIf.apply(x).sum())
    x = leaf()
    r = []
    CFG.k = 2.0
    y = f(x)
    CFG.k = 9.0
    r.append(attempt(y.backward))
    CFG.k = 2.0
    r.append(attempt(y.backward))
    r.append(attempt(lambda: f(x).backward()))
    r.append(x.grad)
    return r


class CtxAttr(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = 2.0
        ctx.name = "n"
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale


@stories
def grad_fn_attr(c):
    f = c(lambda x: CtxAttr.apply(x))
    x = leaf()
    r = []
    y = f(x)
    r.append(y.grad_fn.scale)
    r.append(y.grad_fn.name if isinstance(y.grad_fn.name, str) else None)
    y.grad_fn.scale = 3.0
    y.sum().backward()
    r.append(x.grad)
    return r


@stories
def grad_fn_attr_inside(c):
    def g(x):
        y = CtxAttr.apply(x)
        y.grad_fn.scale = 5.0
        return y.sum()

    f = c(g)
    x = leaf()
    y = f(x)
    y.backward()
    return [x.grad]


class SavesOut(Fn):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@stories.eager
def saved_output_changed(c):
    f = c(lambda x: SavesOut.apply(x))
    x = leaf()
    r = []
    y = f(x)
    with torch.no_grad():
        y.add_(1)
    r.append(attempt(y.sum().backward))
    r.append(x.grad)
    return r


@stories
def saved_output_changed_inside(c):
    def g(x):
        y = SavesOut.apply(x)
        with torch.no_grad():
            y.add_(1)
        return y.sum()

    f = c(g)
    x = leaf()
    r = []
    y = attempt(f, x)
    r.append(y)
    r.append(attempt(y.backward))
    r.append(x.grad)
    return r


@stories
def saved_input_changed(c):
    f = c(lambda x: GlobalRead.apply(x * 1))
    x = leaf()
    r = []
    f2 = c(lambda x: GlobalRead.apply(x))
    y = f2(x)
    with torch.no_grad():
        x.add_(1)
    r.append(attempt(y.sum().backward))
    r.append(x.grad)
    return r


class Side(Fn):
    @staticmethod
    def forward(ctx, x):
        LOG.append("fw")
        return x * 3

    @staticmethod
    def backward(ctx, g):
        LOG.append(("bw", len(LOG)))
        print("backward!")
        return g * 2


@stories
def side_effects(c):
    LOG.clear()
    f = c(lambda x: Side.apply(Side.apply(x)).sum())
    x = leaf()
    r = []
    y = f(x)
    r.append(list(LOG))
    y.backward(retain_graph=True)
    r.append(list(LOG))
    y.backward()
    r.append(list(LOG))
    r.append(x.grad)
    LOG.clear()
    return r


class Printing(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        print("grad", g)
        return g * 2


@stories
def prints(c):
    f = c(lambda x: Printing.apply(x).sum())
    x = leaf()
    y = f(x)
    print("fw done")
    y.backward(retain_graph=True)
    print("again")
    y.backward()
    return [x.grad]


class Counter(Fn):
    n = 0

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        Counter.n += 1
        return g * Counter.n


@stories
def counter(c):
    Counter.n = 0
    f = c(lambda x: Counter.apply(x).sum())
    x = leaf()
    r = []
    y = f(x)
    r.append(Counter.n)
    y.backward(retain_graph=True)
    y.backward()
    r += [Counter.n, x.grad]
    y = f(x)
    y.backward()
    r += [Counter.n, x.grad]
    Counter.n = 0
    return r


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
