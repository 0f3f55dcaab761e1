# mypy: ignore-errors
"""What the backward of a torch.autograd.Function sees and does is of the time when it runs."""

import pytest
import torch

import stator

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


@stories.eager
def grad_fn_attr(c):
    """With a backend that has an autograd of its own, the `grad_fn` is that one's."""
    f = c(lambda x: CtxAttr.apply(x))
    x = leaf()
    r = []
    y = f(x)
    r.append(y.grad_fn.scale)
    r.append(y.grad_fn.name if isinstance(y.grad_fn.name, str) else None)
    y.sum().backward()
    r.append(x.grad)
    return r


def test_an_attribute_of_a_grad_fn_that_is_changed_is_an_error():
    """The backward was captured with the one that it had: never another gradient in silence."""
    x = leaf()
    y = stator.compile(lambda x: CtxAttr.apply(x), backend="eager", fullgraph=True)(x)
    y.grad_fn.scale = 3.0
    with pytest.raises(RuntimeError, match="changed by way of a grad_fn"):
        y.sum().backward()


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


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
