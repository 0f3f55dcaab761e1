# mypy: ignore-errors
"""`backward()` inside of a program: gradients are nodes of the graph, `grad` is state."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator

from .functions import SquareAtOnce
from .harness import Programs, call, check, module, t

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
programs = Programs()


def net():
    return module(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))


def with_grad(tensor):
    tensor.grad = t(*tensor.shape)
    return tensor


def with_grads(m):
    for p in m.parameters():
        with_grad(p)
    return m


LEAVES = {
    "grad of the first": lambda: (with_grad(t(3, grad=True)), t(3, grad=True)),
    "grads of both": lambda: (with_grad(t(3, grad=True)), with_grad(t(3, grad=True))),
    "dtype": lambda: (t(3, dtype=torch.float64, grad=True), t(3, dtype=torch.float64, grad=True)),
    "kind of tensor": lambda: (t(3, grad=True), t(3)),
    "shape": lambda: (t(2, 3, grad=True), t(3, grad=True)),
}


@programs(
    lambda: (t(3, grad=True), t(3, grad=True)),
    ops=["mul", "mul", "sum", "grad", "detach", "getitem", "getitem"],
    changes=LEAVES,
)
def of_two_leaves(x, y):
    loss = (x * x * y).sum()
    loss.backward()
    return loss


@programs(
    lambda: (with_grad(t(3, grad=True)),), ops=["mul", "sum", "grad", "getitem", "add_", "detach"]
)
def added_to_a_gradient(x):
    before = x.grad
    loss = (x * x).sum()
    loss.backward()
    return x.grad is before, loss


@programs(lambda: (net(), t(5, 4)), changes={"gradients": lambda: (with_grads(net()), t(5, 4))})
def of_a_network(m, x):
    m(x).pow(2).mean().backward()


@programs(
    lambda: (net(), t(5, 4)), changes={"gradients": lambda: (with_grads(net()), t(5, 4))}, free=True
)
def accumulated(m, x):
    for part in (x, x * 2):
        (m(part).pow(2).mean() / 2).backward()
    return [p.grad for p in m.parameters()]


@programs(lambda: (net(), t(5, 4, grad=True)))
def some_are_frozen(m, x):
    for p in m[0].parameters():
        p.requires_grad_(False)
    m(x).sum().backward()
    return x.grad


@programs(lambda: (t(3, grad=True), t(3, grad=True), t(3)))
def out_of_reach(x, y, z):
    (x * x * z).sum().backward()
    return x.grad, y.grad, z.grad


@programs(lambda: (t(3, 3, grad=True), t(5, 3)))
def shared(w, x):
    F.linear(F.linear(x, w).relu(), w).sum().backward()
    return w.grad


@programs(
    lambda: (t(3, grad=True), t(3)), changes={"dtype": lambda: (t(3, grad=True), t(3).double())}
)
def gradient_given(x, g):
    (x * x).backward(gradient=g)
    return x.grad


@programs(lambda: (t(3, grad=True), t(3)))
def gradient_of_a_leaf(x, g):
    x.backward(g)
    return x.grad, g


@programs(lambda: (t(3, grad=True), t(3, grad=True), t(3)), dead=True)
def gradient_that_is_passed_on(x, y, g):
    (x + y).backward(g)
    return x.grad, y.grad


@programs(lambda: (t(3, grad=True), t(2, grad=True)))
def parts_of_one_gradient(x, y):
    torch.cat([x, y]).pow(2).sum().backward()
    return x.grad, y.grad


@programs(
    lambda: (t(3, 4, grad=True), t(4, 3).t().requires_grad_(), t(6, 8)[::2, ::2].requires_grad_()),
    free=True,
)
def layouts(x, y, z):
    (x * 2 + y.sin() + z.exp()).sum().backward()
    (x * y * z).t().sum().backward()
    return x.grad.stride(), y.grad.stride(), z.grad.stride()


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def several_at_once(x, y):
    torch.autograd.backward([(x * x).sum(), x * y], [None, torch.ones(3)])


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def by_some(x, y):
    loss = (x * x * y).sum()
    loss.backward(inputs=[y], retain_graph=True)
    first = y.grad.clone()
    loss.backward(inputs=x)
    return first, x.grad


@programs(lambda: (net(), t(5, 4)), free=True)
def two_losses(m, x):
    h = m(x)
    h.sum().backward(retain_graph=True)
    h.pow(2).sum().backward()
    return h.detach()


@programs(lambda: (net(), t(5, 4)))
def kept_for_the_caller(m, x):
    loss = m(x).pow(2).sum()
    loss.backward(retain_graph=True)
    return loss


@programs(lambda: (net(), t(5, 4)), free=True)
def penalty(m, x):
    x.requires_grad_(True)
    y = m(x).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    (y + slope.pow(2).sum()).backward()
    return x.grad


@programs(lambda: (net(), t(5, 4)))
def without_grad_around(m, x):
    loss = m(x).sum()
    with torch.no_grad():
        loss.backward()
        for p in m.parameters():
            p.sub_(p.grad, alpha=0.1)
            p.grad = None
    return loss


@programs(lambda: (t(3),), free=True)
def leaf_of_the_call(x):
    w = torch.ones(3, requires_grad=True)
    (w * w * x).sum().backward()
    return w, w.grad


@programs(lambda: (t(3),), free=True)
def parameter_of_the_call(x):
    p = nn.Parameter(x * 2)
    (p * p).sum().backward()
    return p.grad, p


@programs(lambda: (t(3, grad=True),), free=True, backward=False)
def kept_on_the_way(x):
    h = x * 2
    h.retain_grad()
    loss = (h * h).sum()
    loss.retain_grad()
    loss.backward(retain_graph=True)
    first = h.grad
    loss.backward()
    return loss, h.grad, first, h.retains_grad, h


@programs(lambda: (t(3, 2, grad=True),), free=True)
def kept_by_grad(x):
    h = x.t() * 2
    unused = x * 3
    h.retain_grad()
    unused.retain_grad()
    (found,) = torch.autograd.grad((h * h).sum(), x)
    return found, h.grad, unused.grad


@programs(lambda: (t(3, grad=True),))
def returned_in_part(x):
    h = x.exp()
    h.sum().backward()
    return h.tanh(), h.detach()


@programs(lambda: (t(3, grad=True),))
def through_a_function(x):
    loss = SquareAtOnce.apply(x * 3).sum()
    loss.backward()
    return loss


@programs(lambda: (net(), t(5, 4)), free=True)
def through_a_checkpoint(m, x):
    loss = checkpoint(m, x, use_reentrant=False).sum()
    loss.backward()
    return loss


@programs(lambda: (net(), t(5, 4)))
def in_autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = m(x).float().pow(2).mean()
    loss.backward()
    return loss


@programs(lambda: (t(3, grad=True), t(3)), raises=RuntimeError)
def nothing_to_differentiate(x, y):
    (y * 2).sum().backward()


@programs(lambda: (t(3, grad=True),), raises=RuntimeError)
def no_scalar(x):
    (x * 2).backward()


@programs(lambda: (t(3, grad=True), t(4)), raises=RuntimeError)
def gradient_of_another_shape(x, g):
    (x * 2).backward(g)


@programs(lambda: (t(3, grad=True),), raises=RuntimeError)
def by_nothing(x):
    (x * 2).sum().backward(inputs=[])


@programs(lambda: (t(3, grad=True),), raises=RuntimeError)
def second_time(x):
    loss = (x * x).sum()
    loss.backward()
    loss.backward()


@programs(lambda: (t(3, grad=True),), dead=True)
def error_that_is_handled(x):
    try:
        (x * 2).backward()
    except RuntimeError as error:
        return str(error), x * 3


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program) -> None:
    check(program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs, ids=str)
def test_own_autograd(program) -> None:
    """AOTAutograd writes marks on its results, and names other grad_fns."""
    compiled = stator.compile(program.fn, backend="aot_eager", fullgraph=True)
    expected, found = call(program, program.fn, 1).lines, call(program, compiled, 1).lines
    assert [*map(_plain, expected)] == [_plain(line) for line in found if "_dynamo_" not in line]


def _plain(line):
    return re.sub(r" #\d+", "", re.sub(r"grad_fn=(?!None)\S+", "grad_fn", line))
