# mypy: ignore-errors
"""The forward of a `torch.autograd.Function` is code like any other: it may do what the rest does.

Each program in two calls, in eager and compiled: values, gradients, exceptions, what was changed
meanwhile; and it is one graph, where it says so.
"""

import io
from contextlib import redirect_stdout

import pytest
import torch
from torch.autograd import Function
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import stator

from .stories import BACKENDS

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
LOG = []
WEIGHT = torch.full((3, 3), 0.5, requires_grad=True)


class Counted:
    count = 0


COUNTED = Counted()


def function(forward, backward=lambda ctx, g: g * 2, **more):
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Own", (Function,), methods | more)


def saves_a_number(ctx, x):
    ctx.scale = x.abs().max().item()
    return x * ctx.scale


def branches(ctx, x):
    ctx.factor = 2.0 if x.max() > 3 else 3.0
    return x * ctx.factor


def halves(ctx, x):
    steps = 0
    while x.abs().max() > 1:
        x, steps = x * 0.5, steps + 1
    ctx.factor = 0.5**steps
    return x


def masks(ctx, x):
    ctx.mask = x > 0
    return x[x > 0]


def unmasked(ctx, g):
    found = torch.zeros_like(ctx.mask, dtype=g.dtype)
    found[ctx.mask] = g
    return found


def counts(ctx, x):
    COUNTED.count += 1
    LOG.append(x.shape[0])
    print("forward", x.shape[0])
    return x * COUNTED.count


def keeps_its_result(ctx, x):
    LOG.append(x * 2)
    return LOG[-1]


def saves_its_result(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y)
    return y


def times_saved(ctx, g):
    return g * ctx.saved_tensors[0]


def changes(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def changes_and_more(ctx, x, y):
    ctx.mark_dirty(x)
    x.add_(y)
    return x, x * y


def raises(ctx, x):
    raise KeyError("not here")


def switches(ctx, x):
    torch.set_grad_enabled(True)
    return x * 2


def asks(ctx, x):
    return x * (5 if torch.is_grad_enabled() else 2)


def drops(ctx, x):
    mask = torch.rand_like(x) > 0.5
    ctx.save_for_backward(mask)
    return x * mask


def whole_numbers(ctx, x):
    whole = x.long()
    ctx.mark_non_differentiable(whole)
    ctx.kept = x.shape
    return x * 2, whole


class Running(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        return function(self.step, lambda ctx, g: (g * ctx.saved_tensors[0], None)).apply(
            x, self.mean
        )

    @staticmethod
    def step(ctx, x, mean):
        mean.mul_(0.9).add_(x.mean(0) * 0.1)
        ctx.save_for_backward(mean.clone())
        return x * mean


RUNNING = Running()


def handled(x):
    try:
        return function(raises).apply(x)
    except KeyError:
        return x * 3, torch.is_grad_enabled()


def kept(x):
    y = function(keeps_its_result).apply(x)
    return y, LOG[-1] is y, LOG[-1].requires_grad


def switched(x):
    return function(switches).apply(x), torch.is_grad_enabled()


def dirty_view(x):
    y = x * 1
    function(changes).apply(y[0])
    return y


def dirty_sum(x):
    total = torch.zeros(3, 3)

    def add(ctx, total, x):
        ctx.mark_dirty(total)
        return total.add_(x)

    found = function(add, lambda ctx, g: (None, g)).apply(total, x)
    return found is total, total.requires_grad, found


def twice_differentiated(x):
    y = function(saves_its_result, times_saved).apply(x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return (g * g).sum()


def in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        product = function(
            lambda ctx, x: (ctx.save_for_backward(x), x @ x)[1],
            lambda ctx, g: g.float() @ ctx.saved_tensors[0] * 2,
        )
        return product.apply(x).float()


class Mixed(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


def mixed(x):
    with torch.autocast("cpu", torch.bfloat16):
        return Mixed.apply(x, x).float()


def nested(ctx, x):
    return Straight.apply(x) * 2


class Straight(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


PROGRAMS = {
    "a number from values": function(saves_a_number, lambda ctx, g: g * ctx.scale).apply,
    "rows from values": function(masks, unmasked).apply,
    "effects and output": function(counts).apply,
    "keeps its result": kept,
    "saves its result": function(saves_its_result, times_saved).apply,
    "changes its argument": lambda x: function(changes).apply(x * 1),
    "changes a view": dirty_view,
    "changes what is made": dirty_sum,
    "changes one of two": lambda x: function(changes_and_more, lambda c, g, h: (g + h, g)).apply(
        x * 1, x
    ),
    "handled": handled,
    "switches gradients on": switched,
    "asks for the mode": function(asks).apply,
    "random": function(drops, times_saved).apply,
    "whole numbers": function(whole_numbers, lambda ctx, g, _: (g * 2).view(ctx.kept)).apply,
    "running mean": lambda x: RUNNING(x),
    "result changed": lambda x: function(lambda ctx, x: x * 2).apply(x).add_(1),
    "saved result changed": lambda x: function(saves_its_result, times_saved).apply(x).add_(1) * 1,
    "uses a weight of its own": function(lambda ctx, x: x * WEIGHT).apply,
    "returns a constant": function(lambda ctx, x: torch.ones(3, 3)).apply,
    "numbers at the ctx": lambda x: function(whole_numbers, lambda c, g, _: g).apply(x[:2]),
    "differentiated twice": twice_differentiated,
    "autocast": in_autocast,
    "custom_fwd": mixed,
    "one in another": function(nested, lambda ctx, g: Straight.apply(g) * 2).apply,
    "in a checkpoint": lambda x: checkpoint(
        lambda x: function(saves_its_result, times_saved).apply(x.sin()).cos(),
        x,
        use_reentrant=False,
    ),
}
DEPEND = {
    "a branch": function(branches, lambda ctx, g: g * ctx.factor).apply,
    "a loop": function(halves, lambda ctx, g: g * ctx.factor).apply,
}
SPLIT = {
    "a leaf marked as dirty": function(changes).apply,
    "returned twice": function(lambda c, x: (x * 2,) * 2, lambda c, g, h: g + h).apply,
    "a tensor from before": lambda x: function(lambda c, x: WEIGHT.detach()).apply(x) * 1,
    "a view is changed": lambda x: function(lambda c, x: x.view(9)).apply(x).add_(1),
}


def told(program, x):
    """What a call does, as far as one can tell."""
    torch.manual_seed(0)
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            found = program(x)
            wanted = [y for y in pytree.tree_leaves(found) if isinstance(y, torch.Tensor)]
            sum((y * y).sum() for y in wanted if y.requires_grad).backward()
    except Exception as error:
        found = type(error), str(error)
    state = COUNTED.count, list(LOG), RUNNING.mean.clone()
    return found, x.grad, state, shown.getvalue(), torch.is_grad_enabled()


def calls(program, *values):
    COUNTED.count = 0
    LOG.clear()
    RUNNING.mean.zero_()
    found = []
    for value in values:
        x = torch.full((3, 3), value).add(torch.arange(3.0) / 4).requires_grad_()
        found.append(told(program, x))
    return found


def same(found, expected):
    a, first = pytree.tree_flatten(found)
    b, second = pytree.tree_flatten(expected)
    assert first == second
    for one, other in zip(a, b, strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == other
            continue
        assert (one.dtype, one.requires_grad) == (other.dtype, other.requires_grad)
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_forward_is_in_the_graph(name, backend):
    program = PROGRAMS[name]
    values = (0.5, -0.3) if name == "rows from values" else (0.5, 0.25)
    compiled = stator.compile(lambda x: program(x), backend=backend, fullgraph=True)
    same(calls(compiled, *values), calls(lambda x: program(x), *values))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*DEPEND, *SPLIT])
def test_each_call_does_as_in_eager(name, backend):
    program = (DEPEND | SPLIT)[name]
    values = (0.5, 4.0, 0.25, 9.0)
    compiled = stator.compile(lambda x: program(x), backend=backend)
    same(calls(compiled, *values), calls(lambda x: program(x), *values))


@pytest.mark.parametrize("name", DEPEND)
def test_a_branch_on_values_is_taken_for_granted(name):
    explained = stator.explain(lambda x: DEPEND[name](x))(torch.ones(3, 3, requires_grad=True))
    assert explained.graph_count == 1
