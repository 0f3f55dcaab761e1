# mypy: ignore-errors
"""torch.autograd.Function: what `ctx` can do, what a backward may answer, who is asked."""

import pytest
import torch
from torch.autograd.function import once_differentiable

from .stories import Stories, attempt, check_story, seen

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()
Fn = torch.autograd.Function
SCALE = 2.0
LOG = []


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


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


class Needs(Fn):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        LOG.append(ctx.needs_input_grad)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        LOG.append(ctx.needs_input_grad)
        return (g * y if ctx.needs_input_grad[0] else None), (
            g * x if ctx.needs_input_grad[1] else None
        )


@stories
def needs(c):
    LOG.clear()
    f = c(lambda x, y: Needs.apply(x, y).sum())
    r = []
    for a, b in ((1, 1), (1, 0), (0, 1)):
        x = torch.ones(3).requires_grad_(bool(a))
        y = (torch.ones(3) * 2).requires_grad_(bool(b))
        z = f(x, y)
        z.backward()
        r += [x.grad, y.grad, list(LOG)]
    with torch.no_grad():
        f(torch.ones(3, requires_grad=True), torch.ones(3))
        r.append(list(LOG))
    LOG.clear()
    return r


class Dirty(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@stories
def dirty(c):
    def g(x):
        y = x * 1
        z = Dirty.apply(y)
        return z.sum(), y, z is y

    f = c(g)
    x = leaf()
    a, b, i = f(x)
    a.backward()
    return [a, b, i, x.grad]


@stories
def dirty_input(c):
    def g(x):
        z = Dirty.apply(x)
        return z

    f = c(g)
    x = leaf() * 1
    x0 = x
    z = f(x)
    return [z is x, z, x._version, attempt(f, leaf())]


class NonDiff(Fn):
    @staticmethod
    def forward(ctx, x):
        v, i = x.sort()
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(i)
        return v, i

    @staticmethod
    def backward(ctx, g, gi):
        LOG.append(gi is None or gi.tolist())
        (i,) = ctx.saved_tensors
        r = torch.zeros_like(g)
        r[i] = g
        return r


@stories
def non_diff(c):
    LOG.clear()
    f = c(lambda x: NonDiff.apply(x))
    x = leaf()
    v, i = f(x)
    (v * v).sum().backward()
    r = [v, i, x.grad, list(LOG)]
    LOG.clear()
    return r


class NoMat(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, g, h):
        LOG.append((g is None, h is None))
        r = None
        if g is not None:
            r = g * 1
        if h is not None:
            r = h * 2 if r is None else r + h * 2
        return r


@stories
def no_mat(c):
    LOG.clear()
    f = c(lambda x: NoMat.apply(x))
    r = []
    for k in ((0,), (1,), (0, 1)):
        x = leaf()
        o = f(x)
        sum(o[i].sum() for i in k).backward()
        r += [x.grad, list(LOG)]
    LOG.clear()
    return r


class NoMatPure(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, g, h):
        r = None
        if g is not None:
            r = g * 1
        if h is not None:
            r = h * 20 if r is None else r + h * 200
        return r


@stories
def no_mat_pure(c):
    f = c(lambda x: NoMatPure.apply(x))
    r = []
    for k in ((0,), (1,), (0, 1)):
        x = leaf()
        o = f(x)
        sum(o[i].sum() for i in k).backward()
        r += [x.grad]
    return r


class Mat(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return g + h * 2


@stories
def mat(c):
    f = c(lambda x: Mat.apply(x))
    r = []
    for k in ((0,), (1,), (0, 1)):
        x = leaf()
        o = f(x)
        sum(o[i].sum() for i in k).backward()
        r += [x.grad]
    return r


class Once(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Twice(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


@stories.eager
def once(c):
    f = c(lambda x: Once.apply(x).sum())
    x = leaf()
    y = f(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return [g, attempt(g.sum().backward), x.grad]


@stories.eager
def twice(c):
    f = c(lambda x: Twice.apply(x).sum())
    x = leaf()
    y = f(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return [g, attempt(g.sum().backward), x.grad]


@stories
def twice_inside(c):
    def k(x):
        y = Twice.apply(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g

    f = c(k)
    x = leaf()
    g = f(x)
    return [g, attempt(g.sum().backward), x.grad]


class SaveNone(Fn):
    @staticmethod
    def forward(ctx, x, w=None):
        ctx.save_for_backward(x, w)
        return x * x if w is None else x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        x2, w2 = ctx.saved_tensors
        assert (w is None) == (w2 is None)
        if w is None:
            return g * 2 * x2, None
        return g * w, g * x


@stories
def save_none(c):
    f = c(lambda x, w: SaveNone.apply(x, w).sum())
    x = leaf()
    w = leaf()
    r = []
    f(x, None).backward()
    r.append(x.grad.clone())
    f(x, w).backward()
    r += [x.grad, w.grad]
    return r


class TwiceSaved(Fn):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        LOG.append(ctx.saved_tensors[0] is ctx.saved_tensors[0])
        return g * 2 * ctx.saved_tensors[0]


@stories
def saved_twice_retained(c):
    LOG.clear()
    f = c(lambda x: TwiceSaved.apply(x).sum())
    x = leaf()
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    r = [x.grad, attempt(y.backward), list(LOG)]
    LOG.clear()
    return r


class Setup(Fn):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k = inputs
        ctx.k = k
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, g):
        x, o = ctx.saved_tensors
        return g * ctx.k * SCALE, None


class Sub(Setup):
    @staticmethod
    def backward(ctx, g):
        a, b = Setup.backward(ctx, g)
        return a * 10, b


class Cls(Fn):
    @classmethod
    def forward(cls, ctx, x):
        ctx.c = cls
        return x * cls.k

    @classmethod
    def backward(cls, ctx, g):
        return g * cls.k

    k = 2.0


class Cls2(Cls):
    k = 5.0


@stories
def setup(c):
    global SCALE
    f = c(lambda x: Setup.apply(x, 3.0).sum() + Sub.apply(x, 4.0).sum())
    x = leaf()
    r = []
    for s in (2.0, 3.0):
        SCALE = 2.0
        x.grad = None
        y = f(x)
        SCALE = s
        y.backward()
        r.append(x.grad.clone())
    SCALE = 2.0
    return r


@stories
def classmethods(c):
    f = c(lambda x: Cls.apply(x).sum() + Cls2.apply(x).sum())
    x = leaf()
    r = []
    for s in (2.0, 3.0):
        Cls.k = 2.0
        x.grad = None
        y = f(x)
        Cls.k = s
        y.backward()
        r.append(x.grad.clone())
    Cls.k = 2.0
    return r


@stories
def node_hooks(c):
    LOG.clear()
    f = c(lambda x: Side.apply(x))
    x = leaf()
    y = f(x)
    h = y.grad_fn.register_hook(lambda gi, go: LOG.append(("hook", seen(gi), seen(go))))
    p = y.grad_fn.register_prehook(lambda go: LOG.append(("pre", seen(go))))
    y.sum().backward(retain_graph=True)
    h.remove()
    p.remove()
    y.sum().backward()
    r = [x.grad, list(LOG)]
    LOG.clear()
    return r


@stories
def node_hooks_inside(c):
    LOG.clear()

    def g(x):
        y = Twice.apply(x)
        y.grad_fn.register_hook(lambda gi, go: LOG.append(("hook", seen(gi), seen(go))))
        return y.sum()

    f = c(g)
    x = leaf()
    y = f(x)
    LOG.append("fw")
    y.backward()
    r = [x.grad, list(LOG)]
    LOG.clear()
    return r


class WrongCount(Fn):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


class TooMany(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g, g


class WrongShape(Fn):
    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, g):
        return torch.ones(7)


class NotTensor(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return 3


class GradForNonTensor(Fn):
    @staticmethod
    def forward(ctx, x, k):
        return x * k

    @staticmethod
    def backward(ctx, g):
        return g, torch.ones(1)


class BroadcastGrad(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g.sum()


class ExtraNone(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g, None, None


class NoBack(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1


@stories
def wrong_answers(c):
    r = []
    for fn in (
        lambda x: WrongCount.apply(x, x).sum(),
        lambda x: TooMany.apply(x).sum(),
        WrongShape.apply,
        lambda x: NotTensor.apply(x).sum(),
        lambda x: GradForNonTensor.apply(x, 2).sum(),
        lambda x: BroadcastGrad.apply(x).sum(),
        lambda x: ExtraNone.apply(x).sum(),
        lambda x: NoBack.apply(x).sum(),
    ):
        f = c(fn)
        x = leaf()
        y = attempt(f, x)
        r += [y, attempt(y.backward), x.grad]
    return r


class Rand(Fn):
    @staticmethod
    def forward(ctx, x):
        m = torch.rand_like(x)
        ctx.save_for_backward(m)
        return x * m

    @staticmethod
    def backward(ctx, g):
        (m,) = ctx.saved_tensors
        return g * m + torch.rand_like(g)


@stories
def rand(c):
    f = c(lambda x: Rand.apply(x).sum())
    x = leaf()
    y = f(x)
    a = torch.rand(1)
    y.backward()
    return [y, a, x.grad, torch.rand(1)]


class MutGrad(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        g.mul_(2)
        return g


@stories
def mut_grad(c):
    f = c(lambda x: MutGrad.apply(x))
    x = leaf()
    y = f(x)
    g = torch.ones(3)
    y.backward(g)
    return [g, x.grad]


class Dtype(Fn):
    @staticmethod
    def forward(ctx, x):
        return (x * 2).double()

    @staticmethod
    def backward(ctx, g):
        return g


@stories
def dtype(c):
    f = c(lambda x: Dtype.apply(x).sum())
    x = leaf()
    y = f(x)
    y.backward()
    return [x.grad]


class ReadsModule(Fn):
    @staticmethod
    def forward(ctx, x, m):
        ctx.m = m
        ctx.save_for_backward(x)
        return m(x).detach()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            o = ctx.m(z)
        o.backward(g)
        return z.grad, None


@stories
def own_checkpoint(c):
    m = torch.nn.Linear(3, 3)
    f = c(lambda x: ReadsModule.apply(x, m).sum())
    x = leaf()
    r = []
    for i in range(2):
        y = f(x)
        y.backward()
        r += [x.grad.clone(), m.weight.grad.clone()]
    return r


class ModeRead(Fn):
    @staticmethod
    def forward(ctx, x):
        LOG.append(torch.is_grad_enabled())
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 if torch.is_grad_enabled() else g * 3


@stories.eager
def mode_read(c):
    LOG.clear()
    f = c(lambda x: ModeRead.apply(x).sum())
    x = leaf()
    y = f(x)
    (a,) = torch.autograd.grad(y, x, retain_graph=True)
    (b,) = torch.autograd.grad(y, x, create_graph=True)
    r = [a, b, list(LOG)]
    LOG.clear()
    return r


class SavesOther(Fn):
    @staticmethod
    def forward(ctx, x, o):
        ctx.t = o
        return x * o

    @staticmethod
    def backward(ctx, g):
        return g * ctx.t, None


@stories
def attr_tensor_changed(c):
    f = c(lambda x, o: SavesOther.apply(x, o))
    x = leaf()
    o = torch.ones(3)
    y = f(x, o)
    o.mul_(7)
    y.sum().backward()
    return [x.grad]


BUF = torch.ones(3)


class ReadsTensor(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * BUF


@stories
def global_tensor_changed(c):
    global BUF
    BUF = torch.ones(3)
    f = c(lambda x: ReadsTensor.apply(x).sum())
    x = leaf()
    y = f(x)
    BUF.mul_(5)
    y.backward()
    r = [x.grad.clone()]
    x.grad = None
    y = f(x)
    BUF = torch.full((3,), 2.0)
    y.backward()
    r.append(x.grad)
    BUF = torch.ones(3)
    return r


class Views(Fn):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@stories.eager
def views(c):
    def k(x):
        y = Views.apply(x * 1)
        y.add_(1)
        return y.sum()

    return [attempt(c(k), leaf())]


@stories.eager
def views_returned(c):
    f = c(lambda x: Views.apply(x))
    x = leaf()
    y = f(x)
    r = [y, y._is_view()]
    return r + [attempt(lambda: y.add_(1))]


class Ret(Fn):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@stories
def identity(c):
    f = c(lambda x: Ret.apply(x))
    x = leaf()
    y = f(x)
    y.sum().backward()
    return [y is x, y, x.grad]


class NonTensorOut(Fn):
    @staticmethod
    def forward(ctx, x):
        return x * 2, 3, None, "s"

    @staticmethod
    def backward(ctx, *g):
        LOG.append([seen(i) for i in g])
        return g[0] * 2


@stories
def non_tensor_out(c):
    LOG.clear()
    f = c(lambda x: NonTensorOut.apply(x))
    x = leaf()
    y = f(x)
    y[0].sum().backward()
    r = [list(y), x.grad, list(LOG)]
    LOG.clear()
    return r


class ListOut(Fn):
    @staticmethod
    def forward(ctx, x):
        return [x * 2, x * 3]

    @staticmethod
    def backward(ctx, *g):
        return g[0]


@stories
def list_out(c):
    f = c(lambda x: ListOut.apply(x))
    x = leaf()
    y = attempt(f, x)
    return [y]


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
