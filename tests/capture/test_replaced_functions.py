# mypy: ignore-errors
"""Functions of torch and methods of tensors that the program replaces, and puts back."""

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()


def T():
    return torch.tensor([1.0, -2.0, 3.0])


def patched(owner, name, new):
    def run(c, f, *mk):
        f = c(f)
        r = [attempt(f, *[m() for m in mk])]
        had = name in vars(owner)
        old = vars(owner).get(name)
        try:
            setattr(owner, name, new)
            r.append(attempt(f, *[m() for m in mk]))
            r.append(attempt(f, *[m() for m in mk]))
        finally:
            setattr(owner, name, old) if had else delattr(owner, name)
        r.append(attempt(f, *[m() for m in mk]))
        return r

    return run


def padd(label, owner, name, new, f, *mk):
    run = patched(owner, name, new)

    def st(c):
        return run(c, f, *mk)

    stories.add(label, st)

    # patched from the start
    def st2(c):
        had = name in vars(owner)
        old = vars(owner).get(name)
        try:
            setattr(owner, name, new)
            g = c(f)
            r = [attempt(g, *[m() for m in mk])]
        finally:
            setattr(owner, name, old) if had else delattr(owner, name)
        return r + [attempt(g, *[m() for m in mk])]

    stories.add(f"{label}, from the start", st2)


orig_relu = torch.relu
orig_lin = F.linear
orig_add_ = torch.Tensor.add_
orig_sum = torch.Tensor.sum
orig_frelu = F.relu
osoft = F.softmax
padd("relu", torch, "relu", lambda x: orig_relu(x) * 10, lambda x: torch.relu(x), T)
padd("frelu", F, "relu", lambda x, inplace=False: orig_frelu(x) * 10, lambda x: F.relu(x), T)
padd(
    "flinear",
    F,
    "linear",
    lambda x, w, b=None: orig_lin(x, w, b) * 10,
    lambda x: F.linear(x, torch.ones(2, 3)),
    T,
)


def tolin(x):
    torch.manual_seed(0)
    return x


lin = nn.Linear(3, 2)
nn.init.ones_(lin.weight)
nn.init.zeros_(lin.bias)
padd("nnlinear", F, "linear", lambda x, w, b=None: orig_lin(x, w, b) * 10, lambda x: lin(x), T)
padd("tadd_", torch.Tensor, "add_", lambda s, o: orig_add_(s, o * 10), lambda x: x.add_(1), T)
padd("tsum", torch.Tensor, "sum", lambda s: orig_sum(s) * 10, lambda x: x.sum(), T)
oadd = torch.Tensor.__add__
omul = torch.Tensor.__mul__
orsub = torch.Tensor.__rsub__
ogi = torch.Tensor.__getitem__
omm = torch.Tensor.__matmul__
oeq = torch.Tensor.__eq__
oneg = torch.Tensor.__neg__
oiadd = torch.Tensor.__iadd__
padd("t__add__", torch.Tensor, "__add__", lambda s, o: omul(oadd(s, o), 10), lambda x: x + 1, T)
padd("t__mul__", torch.Tensor, "__mul__", lambda s, o: oadd(s, 100), lambda x: x * 2, T)
padd("t__rsub__", torch.Tensor, "__rsub__", lambda s, o: omul(s, 7), lambda x: 1 - x, T)
padd(
    "t__getitem__", torch.Tensor, "__getitem__", lambda s, k: omul(ogi(s, k), 7), lambda x: x[0], T
)
padd("t__matmul__", torch.Tensor, "__matmul__", lambda s, k: omul(omm(s, k), 7), lambda x: x @ x, T)
padd("t__eq__", torch.Tensor, "__eq__", lambda s, k: "eq", lambda x: x == x, T)
padd("t__neg__", torch.Tensor, "__neg__", lambda s: omul(s, 7), lambda x: -x, T)
padd("t__len__", torch.Tensor, "__len__", lambda s: 42, lambda x: (len(x), x * 1), T)
padd(
    "t__bool__",
    torch.Tensor,
    "__bool__",
    lambda s: True,
    lambda x: x * 2 if (x.sum() > 100) else x * 3,
    T,
)
padd(
    "t_new",
    torch.Tensor,
    "frobnicate",
    lambda s: omul(s, 7),
    lambda x: x.frobnicate() if hasattr(x, "frobnicate") else x * 1,
    T,
)
padd(
    "t_prop",
    torch.Tensor,
    "twice",
    property(lambda s: omul(s, 2)),
    lambda x: getattr(x, "twice", x * 1),
    T,
)
oshape = torch.Tensor.__dict__.get("shape")
padd("t_size", torch.Tensor, "size", lambda s, *a: torch.Size([9]), lambda x: (x * 1, x.size()), T)
padd("t_relu", torch.Tensor, "relu", lambda s: omul(s, 7), lambda x: x.relu(), T)
padd("zeros", torch, "zeros", lambda *a, **k: torch.full(a, 7.0), lambda x: x + torch.zeros(3), T)
padd("fsoftmax", F, "softmax", lambda x, dim=None: osoft(x, dim) * 3, lambda x: nn.Softmax(0)(x), T)
padd("nnforward", nn.Linear, "forward", lambda s, x: orig_lin(x, s.weight) * 5, lambda x: lin(x), T)
padd("nncall", nn.Module, "__call__", lambda s, x: x * 5, lambda x: lin(x), T)
padd(
    "no_grad",
    torch,
    "no_grad",
    torch.enable_grad,
    lambda x: (torch.no_grad().__class__.__name__, x * 1),
    T,
)
padd(
    "is_tensor",
    torch,
    "is_tensor",
    lambda o: False,
    lambda x: x * 2 if torch.is_tensor(x) else x * 3,
    T,
)
padd(
    "is_grad_enabled",
    torch,
    "is_grad_enabled",
    lambda: "patched",
    lambda x: (x * 1, torch.is_grad_enabled()),
    T,
)
padd(
    "get_default_dtype",
    torch,
    "get_default_dtype",
    lambda: torch.float64,
    lambda x: (x * 1, str(torch.get_default_dtype())),
    T,
)
padd(
    "manual_seed",
    torch,
    "manual_seed",
    lambda s: None,
    lambda x: (torch.manual_seed(3), x + torch.rand(3))[1],
    T,
)
padd("op_add", operator, "add", lambda a, b: a * 100, lambda x: operator.add(x, 1), T)
padd("math_sqrt", math, "sqrt", lambda a: 100.0, lambda x: x * math.sqrt(4), T)
padd("special", torch.special, "expit", lambda a: a * 100, lambda x: torch.special.expit(x), T)
padd("linalg", torch.linalg, "norm", lambda a: a * 100, lambda x: torch.linalg.seen(x), T)
padd("fft", torch.fft, "fft", lambda a: a * 100, lambda x: torch.fft.fft(x), T)
padd("t_item", torch.Tensor, "item", lambda s: 5, lambda x: x * x.sum().item(), T)
padd("t_backward", torch.Tensor, "backward", lambda s: None, lambda x: x * 1, T)
padd(
    "ckpt",
    torch.utils.checkpoint,
    "checkpoint",
    lambda f, *a, **k: f(*a) * 10,
    lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False),
    T,
)
padd("vmap", torch, "vmap", lambda f: lambda x: x * 100, lambda x: torch.vmap(torch.sin)(x), T)
padd("ops", torch.ops.aten, "sin", lambda x: x * 100, lambda x: torch.ops.aten.sin(x), T)
padd("data_desc", torch.Tensor, "data", property(lambda s: omul(s, 9)), lambda x: x.data + 1, T)
padd("T_desc", torch.Tensor, "T", property(lambda s: omul(s, 9)), lambda x: x.T + 1, T)
padd(
    "requires_grad_desc",
    torch.Tensor,
    "requires_grad",
    property(lambda s: "rg"),
    lambda x: (x * 1, x.requires_grad),
    T,
)
padd("grad_desc", torch.Tensor, "grad", property(lambda s: "gr"), lambda x: (x * 1, x.grad), T)
padd(
    "dtype_desc",
    torch.Tensor,
    "dtype",
    property(lambda s: "dt"),
    lambda x: (x * 1, str(x.dtype)),
    T,
)
padd(
    "shape_desc",
    torch.Tensor,
    "shape",
    property(lambda s: (7,)),
    lambda x: (x * 1, tuple(x.shape)),
    T,
)
padd("repr", torch.Tensor, "__repr__", lambda s: "REPR", lambda x: f"{x}", T)
padd("repr_print", torch.Tensor, "__repr__", lambda s: "REPR", lambda x: print(x) or x * 1, T)
padd("format", torch.Tensor, "__format__", lambda s, spec: "FMT", lambda x: f"{x}", T)
padd("iter", torch.Tensor, "__iter__", lambda s: iter([s * 100]), lambda x: [i * 2 for i in x], T)
padd("hash", torch.Tensor, "__hash__", lambda s: 5, lambda x: (hash(x) == 5, x * 1), T)
padd("contains", torch.Tensor, "__contains__", lambda s, o: True, lambda x: (99.0 in x, x * 1), T)
padd(
    "setitem",
    torch.Tensor,
    "__setitem__",
    lambda s, k, v: s.fill_(9),
    lambda x: operator.setitem(x, 0, 5.0) or x * 1,
    T,
)
padd("param_new", nn, "Parameter", lambda x: x * 9, lambda x: nn.Parameter(x) * 1, T)
padd("optim_step", torch.optim.SGD, "step", lambda s: None, lambda x: x * 1, T)


@stories
def undone_between(c):
    f = c(lambda x: F.gelu(torch.relu(x)).add(1))
    r = [f(T())]
    o = torch.relu
    for i in range(3):
        torch.relu = lambda x, i=i: o(x) * i
        r.append(f(T()))
        torch.relu = o
        r.append(f(T()))
    return r


@stories
def patched_inside(c):
    def g(x):
        o = torch.relu
        torch.relu = lambda y: o(y) * 10
        try:
            return torch.relu(x)
        finally:
            torch.relu = o

    f = c(g)
    return [f(T()), f(T()), torch.relu is orig_relu]


@stories
def from_import(c):
    from torch import relu

    f = c(lambda x: relu(x))
    r = [f(T())]
    torch.relu = lambda x: x * 0
    r.append(f(T()))
    torch.relu = orig_relu
    return r


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
