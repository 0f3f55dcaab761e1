# mypy: ignore-errors
"""Operators and functions of torch between tensors and objects of other kinds."""

import datetime
import decimal
import fractions
import operator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .stories import Stories, attempt, check_story, seen

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()


def T():
    return torch.tensor([1.0, -2.0, 3.0])


LOG = []


class Duck:
    def __init__(s, v):
        s.v = v

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((getattr(func, "__name__", str(func)), [t.__name__ for t in types]))
        args = [a.v if isinstance(a, Duck) else a for a in args]
        return func(*args, **(kwargs or {})) * 10


class DuckNI:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class DuckOps(Duck):
    def __add__(s, o):
        return "DO.add"

    def __radd__(s, o):
        return "DO.radd"

    def __mul__(s, o):
        return ("mul", o)


class Ops:
    def __init__(s, v=2.0):
        s.v = v

    def __add__(s, o):
        return o * 1 + s.v

    def __radd__(s, o):
        return o * 10 + s.v

    def __mul__(s, o):
        return o * s.v

    __rmul__ = __mul__

    def __matmul__(s, o):
        return o @ o * s.v

    def __rmatmul__(s, o):
        return o @ o * s.v * 10

    def __eq__(s, o):
        return "eq"

    def __ne__(s, o):
        return "ne"

    def __lt__(s, o):
        return "lt"

    def __gt__(s, o):
        return "gt"

    def __le__(s, o):
        return "le"

    def __rsub__(s, o):
        return ("rsub", s.v)

    def __rtruediv__(s, o):
        return ("rdiv", s.v)

    def __rpow__(s, o):
        return ("rpow", s.v)

    def __rand__(s, o):
        return ("rand",)

    def __rfloordiv__(s, o):
        return "rfloordiv"

    def __rmod__(s, o):
        return "rmod"

    def __hash__(s):
        return 1


class Prio(Ops):
    __array_priority__ = 1000


class NoOps:
    pass


class RaisesRadd:
    def __radd__(s, o):
        raise ValueError("radd")


class HasTensor:  # array protocol
    def __init__(s, v):
        s.v = v

    def __array__(s, dtype=None, copy=None):
        return np.array([1.0, 2.0, 3.0], dtype=np.float32)


class FloatLike:
    def __float__(s):
        return 2.5


class IntLike:
    def __index__(s):
        return 2


class SubF(float):
    pass


class SubFR(float):
    def __radd__(s, o):
        return "SubFR"

    def __add__(s, o):
        return "SubF.add"


class SubI(int):
    pass


class Iter:
    def __iter__(s):
        return iter([1.0, 2.0, 3.0])

    def __len__(s):
        return 3

    def __getitem__(s, i):
        return [1.0, 2.0, 3.0][i]


SYMBOLS = ("+", "-", "*", "/", "@", "**", "//", "%", "&", "==", "!=", "<", ">", "<=")
objs = dict(
    Duck=lambda: Duck(torch.ones(3)),
    DuckNI=DuckNI,
    DuckOps=lambda: DuckOps(torch.ones(3)),
    Ops=Ops,
    Prio=Prio,
    NoOps=NoOps,
    RaisesRadd=RaisesRadd,
    HasTensor=lambda: HasTensor(1),
    FloatLike=FloatLike,
    IntLike=IntLike,
    SubF=lambda: SubF(2),
    SubFR=lambda: SubFR(2),
    SubI=lambda: SubI(2),
    Iter=Iter,
    frac=lambda: fractions.Fraction(1, 2),
    dec=lambda: decimal.Decimal("1.5"),
    np64=lambda: np.float64(2.0),
    npi=lambda: np.int64(2),
    nparr=lambda: np.array([1.0, 2.0, 3.0], dtype=np.float32),
    none=lambda: None,
    s=lambda: "x",
    lst=lambda: [1.0, 2.0, 3.0],
    tup=lambda: (1.0, 2.0, 3.0),
    d=lambda: {},
    cplx=lambda: 2j,
    td=lambda: datetime.timedelta(1),
    obj=object,
    dt=lambda: torch.float32,
    fn=lambda: len,
    cls=lambda: int,
)


def shown(value):
    if isinstance(value, np.ndarray):
        items = value.tolist()
        return "array", str(value.dtype), seen(items) if value.dtype == object else items
    return value


def operators_with(make):
    """All operators, with the object on either side, each program called twice."""

    def tell(c):
        found = []
        for symbol in SYMBOLS:
            for text in (f"lambda t, o: t {symbol} o", f"lambda t, o: o {symbol} t"):
                LOG.clear()
                compiled = c(eval(text))
                found += [(text, shown(attempt(compiled, T(), make()))) for _ in range(2)]
                found.append(list(LOG))
        return found

    return tell


for name, make in objs.items():
    stories.add(name, operators_with(make))


@stories
def iops(c):
    r = []
    for mk in (
        Ops,
        Prio,
        lambda: Duck(torch.ones(3)),
        NoOps,
        FloatLike,
        HasTensor and (lambda: HasTensor(1)),
    ):

        def g(t, o):
            t = t * 1
            t += o
            return t

        def g2(t, o):
            o += t
            return o

        LOG.clear()
        r += [attempt(c(g), T(), mk()), attempt(c(g2), T(), mk()), list(LOG)]
    return r


@stories
def duck_funcs(c):
    r = []
    LOG.clear()
    for g in (
        lambda t, o: torch.add(t, o),
        lambda t, o: torch.add(o, t),
        lambda t, o: torch.cat([t, o]),
        lambda t, o: F.linear(t, o),
        lambda t, o: torch.sum(o),
        lambda t, o: t.add(o),
        lambda t, o: F.relu(o),
        lambda t, o: torch.stack([o, t]),
        lambda t, o: torch.is_tensor(o),
        lambda t, o: F.softmax(o, 0),
        lambda t, o: t.copy_(o),
        lambda t, o: torch.where(t > 0, t, o),
        lambda t, o: torch.overrides.is_tensor_like(o),
        lambda t, o: torch.einsum("i,i->i", t, o),
        lambda t, o: torch.nn.functional.dropout(o, 0.5, False),
    ):
        f = c(g)
        r += [attempt(f, T(), Duck(torch.ones(3))), attempt(f, T(), DuckNI()), list(LOG)]
        LOG.clear()
    return r


@stories
def duck_getitem(c):
    r = []
    LOG.clear()
    for g in (lambda t, o: t[o], lambda t, o: operator.setitem(t, 0, o) or t):
        f = c(g)
        r += [
            attempt(f, T(), Duck(torch.tensor([0]))),
            attempt(f, T(), Duck(torch.tensor(0))),
            list(LOG),
        ]
        LOG.clear()
    return r


@stories
def in_trace_objs(c):
    def g(t):
        return t + Ops(3.0), Ops(3.0) * t, Ops() == t, t @ Ops()

    def h(t):
        return torch.add(t, Duck(t))

    LOG.clear()
    return [attempt(c(g), T()), attempt(c(h), T()), list(LOG)]


@stories
def class_changed(c):
    class K:
        def __radd__(s, o):
            return o * 2

    f = c(lambda t, o: t + o)
    r = [f(T(), K())]
    K.__radd__ = lambda s, o: o * 3
    r.append(f(T(), K()))
    del K.__radd__
    r.append(attempt(f, T(), K()))
    K.__torch_function__ = classmethod(lambda *a, **k: "tf")
    r.append(attempt(f, T(), K()))
    return r


@stories
def instance_tf(c):
    class K:
        pass

    k = K()
    k.__torch_function__ = lambda *a, **kw: "inst"
    f = c(lambda t, o: attempt(torch.add, t, o))
    return [f(T(), k)]


@stories
def getattr_tf(c):
    class K:
        def __getattr__(s, n):
            LOG.append(n)
            raise AttributeError(n)

    LOG.clear()
    f = c(lambda t, o: t + o)
    r = [attempt(f, T(), K()), list(LOG)]
    return r


class Unwrapping:
    def __init__(self, v):
        self.v = v

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def plain(value):
            if isinstance(value, Unwrapping):
                return value.v
            return [plain(i) for i in value] if isinstance(value, (list, tuple)) else value

        named = kwargs or {}
        LOG.append((func.__name__, [kind.__name__ for kind in types], sorted(named)))
        return func(*plain(args), **{name: plain(value) for name, value in named.items()}) * 10


def add(name, g, mk=lambda: Unwrapping(torch.ones(3))):
    def st(c):
        LOG.clear()
        f = c(g)
        r = [attempt(f, T(), mk()) for _ in range(2)]
        r.append(list(LOG))
        LOG.clear()
        return r

    stories.add(f"torch function: {name}", st)


add("kw_other", lambda t, o: torch.add(t, other=o))
add("kw_input", lambda t, o: torch.add(input=o, other=t))
add("method_kw", lambda t, o: t.add(other=o))
add("clamp", lambda t, o: torch.clamp(t, min=o))
add("cat_kw", lambda t, o: torch.cat(tensors=[t, o]))
add("stack_t", lambda t, o: torch.stack((t, o), dim=0))
add("module", lambda t, o: nn.ReLU()(o))
add("linear_mod", lambda t, o: nn.Linear(3, 3, bias=False).requires_grad_(False)(o).sum() * 0)
add("len", lambda t, o: attempt(len, o))
add("inplace", lambda t, o: t.add_(o))
add("out", lambda t, o: attempt(torch.add, t, t, out=o))
add("index", lambda t, o: t.index_select(0, o), lambda: Unwrapping(torch.tensor([0, 1])))
add("where", lambda t, o: torch.where(o > 0 if isinstance(o, torch.Tensor) else t > 0, t, o))
add("mse", lambda t, o: F.mse_loss(t, o))
add(
    "sdpa",
    lambda t, o: F.scaled_dot_product_attention(t.view(1, 1, 3), t.view(1, 1, 3), o),
    lambda: Unwrapping(torch.ones(1, 1, 3)),
)
add("foreach", lambda t, o: attempt(torch._foreach_add, [t], [o]))
add("nested", lambda t, o: torch.add(torch.mul(t, o), o))
add("tensor_of", lambda t, o: attempt(torch.tensor, o))
add("as_tensor", lambda t, o: attempt(torch.as_tensor, o))
add("full_like", lambda t, o: torch.zeros_like(o))
add("backward", lambda t, o: attempt(torch.autograd.backward, o))
add("norm", lambda t, o: torch.norm(o))
add("einsum", lambda t, o: torch.einsum("i,i->", o, t))
add("split", lambda t, o: attempt(torch.split, o, 1))
add(
    "embedding",
    lambda t, o: F.embedding(torch.tensor([0, 1]), o),
    lambda: Unwrapping(torch.ones(3, 2)),
)


class Partial:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__ if func is torch.add else NotImplemented


add("partial", lambda t, o: (attempt(torch.add, t, o), attempt(torch.mul, t, o)), Partial)


class Raises:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ValueError(func.__name__)


add("raises", lambda t, o: torch.add(t, o), Raises)


class Disabled:
    __torch_function__ = torch._C._disabled_torch_function_impl


add("disabled", lambda t, o: torch.add(t, o), Disabled)


class InstM:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return "instance method"


add("instmethod", lambda t, o: torch.add(t, o), InstM)


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
