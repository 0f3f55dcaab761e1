# mypy: ignore-errors
"""Functions of autograd whose backward depends on nothing but what it is given are in the graph."""

import math
from enum import Enum

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.function import Function, once_differentiable

import stator

from .stories import BACKENDS

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


class Mode(Enum):
    A = 1
    B = 2


def helper(g, x):
    return g * torch.cos(x)


class Sin(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return helper(g, x)


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class GRL(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


class Lin(Function):
    @staticmethod
    def forward(ctx, x, w, b=None):
        ctx.save_for_backward(x, w, b)
        o = x.mm(w.t())
        if b is not None:
            o += b.unsqueeze(0).expand_as(o)
        return o

    @staticmethod
    def backward(ctx, g):
        x, w, b = ctx.saved_tensors
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = g.mm(w)
        if ctx.needs_input_grad[1]:
            gw = g.t().mm(x)
        if b is not None and ctx.needs_input_grad[2]:
            gb = g.sum(0)
        return gx, gw, gb


class Mish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        fx = F.softplus(x).tanh()
        return g * (fx + x * torch.sigmoid(x) * (1 - fx * fx))


class Swish(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s * (1 + x * (1 - s)))


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Shapes(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        ctx.dt = x.dtype
        ctx.sizes = list(x.shape)
        return x.sum()

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape).to(ctx.dt) * math.pi * len(ctx.sizes)


class Multi(Function):
    @staticmethod
    def forward(ctx, x, y, mode, axis=-1):
        ctx.mode = mode
        ctx.axis = axis
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        if ctx.mode is Mode.A:
            return g * y + h, g * x + h, None, None
        return g, h, None, None


class Base(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].exp()


class Derived(Base):
    @staticmethod
    def backward(ctx, g):
        return Base.backward(ctx, g) * 2


class Setup(Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, i, o):
        ctx.k = i[1]
        ctx.save_for_backward(i[0])

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None


class Inter(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.y = y
        return y.log()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y


class DtypeConst(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.to(torch.float16).float()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.to(torch.float32) * torch.ones_like(x)


class ZerosB(Function):
    @staticmethod
    def forward(ctx, x, idx):
        ctx.save_for_backward(idx)
        ctx.n = x.shape[0]
        return x[idx]

    @staticmethod
    def backward(ctx, g):
        (idx,) = ctx.saved_tensors
        r = torch.zeros((ctx.n, *g.shape[1:]), dtype=g.dtype, device=g.device)
        r.index_add_(0, idx, g)
        return r, None


def leaf(*s):
    return torch.randn(*s, requires_grad=True)


PROGRAMS = dict(
    sin=(lambda x: Sin.apply(x) * 2, (leaf(3),)),
    rnd=(lambda x: Round.apply(x) * 2, (leaf(3),)),
    rnd_direct=(lambda x: Round.apply(x), (leaf(3),)),
    grl=(lambda x: GRL.apply(x, 0.5) * 2, (leaf(3),)),
    lin=(lambda x, w, b: Lin.apply(x, w, b).relu(), (leaf(2, 3), leaf(4, 3), leaf(4))),
    lin2=(lambda x, w: Lin.apply(x, w).relu(), (torch.randn(2, 3), leaf(4, 3))),
    mish=(lambda x: Mish.apply(x), (leaf(3),)),
    swish=(lambda x: Swish.apply(x) * 1, (leaf(3),)),
    once=(lambda x: Once.apply(x).sum(), (leaf(3),)),
    shapes=(lambda x: Shapes.apply(x) * 2, (leaf(3, 2),)),
    multi=(lambda x, y: sum(Multi.apply(x, y, Mode.A)), (leaf(3), leaf(3))),
    derived=(lambda x: Derived.apply(x) * 1, (leaf(3),)),
    setup=(lambda x: Setup.apply(x, 3) * 1, (leaf(3),)),
    inter=(lambda x: Inter.apply(x) * 1, (leaf(3),)),
    dtc=(lambda x: DtypeConst.apply(x) * 1, (leaf(3),)),
    zb=(lambda x: ZerosB.apply(x, torch.tensor([0, 0, 1])).sum(), (leaf(3, 2),)),
    twice=(lambda x: Sin.apply(Sin.apply(x)).sum(), (leaf(3),)),
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph(name, backend):
    program, given = PROGRAMS[name]
    graphs = []

    def counting(module, inputs):
        graphs.append([node.op for node in module.graph.nodes])
        return stator.backends.registry.lookup(backend)(module, inputs)

    def gradients(run):
        args = [each.detach().clone().requires_grad_(each.requires_grad) for each in given]
        result = run(*args)
        result.sum().backward()
        return [result.detach(), *(each.grad for each in args if each.requires_grad)]

    compiled = stator.compile(program, backend=counting, fullgraph=True)
    torch.testing.assert_close(gradients(compiled), gradients(program), rtol=0, atol=0)
    assert len(graphs) == 1
    assert "call_module" in graphs[0]  # the region


LATER = {
    "a global": lambda ctx, g: g * EPS,
    "an attribute of a class": lambda ctx, g: g * Settings.scale,
    "an item of a list": lambda ctx, g: g * ITEMS[0],
    "the grad mode": lambda ctx, g: g * torch.is_grad_enabled(),
    "an exception": lambda ctx, g: 1 / 0,
    "too many gradients": lambda ctx, g: (g, g),
    "another shape": lambda ctx, g: g.sum(),
    "no tensor": lambda ctx, g: 3,
    "a changed gradient": lambda ctx, g: g.mul_(2),
}
EPS = 1e-5
ITEMS = [2.0]


class Settings:
    scale = 3.0


@pytest.mark.parametrize("name", LATER)
def test_is_split_where_the_backward_depends_on_more(name):
    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        backward = staticmethod(LATER[name])

    compiled = stator.compile(lambda x: Own.apply(x).sin(), backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError, match="SB0041"):
        compiled(torch.ones(3, requires_grad=True))


def test_gradients_that_may_be_missing_are_asked_for():
    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g if h is None else h

    compiled = stator.compile(lambda x: Own.apply(x)[0], backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError, match="which gradients there are"):
        compiled(torch.ones(3, requires_grad=True))


class Contiguous(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g.contiguous().view(-1).view(g.shape) * 3


class IfContiguous(Contiguous):
    @staticmethod
    def backward(ctx, g):
        if not g.is_contiguous():
            g = g.contiguous()
        return g.view(-1).view(g.shape) * 3


class Transposed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.t() * 2

    @staticmethod
    def backward(ctx, g):
        return g.t().contiguous().view(-1).view(2, 3) * 2


class Mapped(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.contiguous().view(-1).view(g.shape) * 3 * x**2


LAYOUTS = {
    "expanded": lambda x: Contiguous.apply(x).sum(),
    "transposed": lambda x: Contiguous.apply(x).t() @ torch.ones(2, 1),
    "asked": lambda x: IfContiguous.apply(x).sum(),
    "of a transposed result": lambda x: Transposed.apply(x).sum() + Transposed.apply(x).exp().sum(),
    "twice": lambda x: torch.autograd.grad(Mapped.apply(x).sum(), x, create_graph=True)[0],
    "in a transform": lambda x: torch.vmap(torch.func.grad(lambda y: Mapped.apply(y).sum()))(x),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_gradient_that_lies_otherwise_in_memory(name, backend):
    """A backward that asks gets it as it lay when the backward was captured."""
    program = LAYOUTS[name]
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(2, 3, requires_grad=True)
        outcomes = []
        for function in (program, compiled):
            result = function(x)
            if name != "in a transform":
                result = result, *torch.autograd.grad(result.sum(), x)
            outcomes.append(result)
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=0, atol=0)


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 5


class SameApart(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x * 2, x

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize(
    "program", [lambda x: Same.apply(x), lambda x: SameApart.apply(x)[1]], ids=["same", "apart"]
)
def test_an_argument_that_is_returned_as_it_came(program, leaf, grad, backend):
    x = torch.ones(3, requires_grad=leaf)
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    with torch.set_grad_enabled(grad):
        results = program(x), compiled(x)
    told = [
        (each is x, each.requires_grad, each.is_leaf, each.data_ptr() == x.data_ptr())
        for each in results
    ]
    assert told[1] == told[0]
