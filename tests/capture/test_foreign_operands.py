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


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
