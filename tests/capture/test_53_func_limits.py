# mypy: ignore-errors
"""`torch.func` inside of a program: backends, open sizes, and what is refused."""

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

import stator
from tests.versions import TORCH

from .functions import Square

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


# ---------------------------------------------------------------------------- backends


def trained(x, m, w):
    slope = vmap(grad(lambda row: (m(row) * w).sum()))(x)
    out, pull = vjp(lambda y: y.sin() * y, x)
    return ((slope.norm(dim=1) - 1) ** 2).mean(), jacrev(lambda y: m(y) * w)(x[0]), out, pull(x)


def pushed(x, m, w):
    return hessian(lambda y: (m(y) * w).sum())(x[0]), jvp(lambda y: m(y), (x,), (x * 2,))


right = pytest.mark.skipif(
    TORCH < (2, 13), reason="Inductor of torch 2.11 is wrong about Jacobians, or refuses them"
)
BACKENDS = ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, right])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [trained, pushed], ids=lambda fn: fn.__name__)
def test_backends(program, backend) -> None:
    found = []
    for function in (program, stator.compile(program, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        x, w = torch.randn(2, 4, requires_grad=True), torch.randn(3, requires_grad=True)
        results = torch.utils._pytree.tree_leaves(function(x, m, w))
        sum(each.sum() for each in results).backward()
        with torch.no_grad():
            quiet = torch.utils._pytree.tree_leaves(function(x, m, w))
        assert not any(each.requires_grad for each in quiet)
        found.append([*results, *quiet, x.grad, w.grad, m[0].weight.grad])
    for expected, made in zip(*found, strict=True):
        torch.testing.assert_close(made, expected)


def test_inductor() -> None:
    def program(x, w):
        slopes = vmap(grad(lambda row, v: (row.sin() * v).sum()), in_dims=(0, None))(x, w)
        return slopes, jvp(torch.sin, (x,), (x,)), vjp(torch.cos, x)[1](x)

    x, w = torch.randn(2, 3), torch.randn(3)
    compiled = stator.compile(program, backend="inductor", fullgraph=True)
    torch.testing.assert_close(compiled(x, w), program(x, w))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_stay_open(backend) -> None:
    def program(x, w):
        def loss(v, row):
            return (v * row.sin() * x.shape[0]).sum()

        out, pull = vjp(lambda y: y * y.shape[0], x)
        return vmap(grad(loss), in_dims=(None, 0))(w, x), out, pull(x), jacrev(torch.sin)(x[:, 0])

    compiled = stator.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for size in (4, 5, 7):
        x, w = torch.randn(size, 3, requires_grad=True), torch.randn(3)
        for found, expected in zip(
            torch.utils._pytree.tree_leaves(compiled(x, w)),
            torch.utils._pytree.tree_leaves(program(x, w)),
            strict=True,
        ):
            torch.testing.assert_close(found, expected)
    assert compiled.statistics()["misses"] == 1


# ---------------------------------------------------------------------------- refused


def break_inside(x):
    def f(y):
        stator.graph_break()
        return (y * y).sum()

    return grad(f)(x)


def branch_on_values(x):
    return grad(lambda y: y.sum() if y.sum() > 0 else -y.sum())(x)


def tensor_leaves(x):
    kept = []
    found = grad(lambda y: (kept.append(y * 2), (y * y).sum())[1])(x)
    return found, kept[0] + 1


def argument_changed(x):
    other = x * 2
    return grad(lambda y, z: (y * z.add_(1)).sum())(x, other), other


def outer_tensor_changed(x):
    running = torch.zeros(3)
    return grad(lambda y: (y * running.add_(1)).sum())(x)


def grad_mode_left(x):
    def f(y):
        torch.set_grad_enabled(False)
        return (y * y).sum()

    return grad(f)(x), torch.is_grad_enabled()


def function_inside(x):
    return jvp(Square.apply, (x,), (x,))


def checkpoint_inside(x):
    return grad(lambda y: checkpoint(lambda z: (z * z).sum(), y, use_reentrant=False))(x)


def pullback_over_a_break(x):
    out, pull = vjp(torch.sin, x)
    stator.graph_break()
    return out, pull(x)


def another_structure(x):
    return vjp(lambda y: (y, y * 2), x)[1](x)


def inference(x):
    with torch.inference_mode():
        return grad(lambda y: (y * y).sum())(x)


def requires_grad_set(x):
    return grad(lambda y: (y.requires_grad_() * y).sum())(x)


def output_inside(x):
    return grad(lambda y: (print("f"), (y * y).sum())[1])(x)


REFUSED = {
    break_inside: "the program asks for a graph break",
    branch_on_values: "a branch depends on the value of a tensor",
    tensor_leaves: "a tensor has left a region sideways, and is used",
    argument_changed: "a function that is given to torch.func.grad changes its argument",
    outer_tensor_changed: "a tensor from outside is changed in a region of its own",
    grad_mode_left: "a function that is given to torch.func.grad leaves another grad mode",
    function_inside: "a torch.autograd.Function inside of torch.func.jvp",
    checkpoint_inside: "torch.utils.checkpoint inside of a function that torch.func transforms",
    pullback_over_a_break: "the program asks for a graph break",
    another_structure: "Expected pytree structure of cotangents",
    inference: "torch.func.grad in inference mode",
    requires_grad_set: "requires_grad is set inside of a function that torch.func transforms",
    output_inside: "output from inside of a region",
}


def outcome(function):
    try:
        with torch.enable_grad():
            found = function(torch.arange(1.0, 4.0))
    except Exception as error:
        return [type(error), str(error)]
    return torch.utils._pytree.tree_leaves(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", REFUSED, ids=lambda fn: fn.__name__)
def test_refused(program) -> None:
    with pytest.raises(stator.CaptureError, match=REFUSED[program]):
        stator.compile(program, backend="eager", fullgraph=True)(torch.arange(1.0, 4.0))
    stator.reset()
    expected, found = outcome(program), outcome(stator.compile(program, backend="eager"))
    torch.testing.assert_close(found, expected) if torch.is_tensor(expected[0]) else None
    assert len(found) == len(expected)
    assert [each for each in found if not torch.is_tensor(each)] == [
        each for each in expected if not torch.is_tensor(each)
    ]


def test_returned_pullback_is_a_break() -> None:
    def program(x):
        out, pull = vjp(torch.sin, x)
        return out, pull

    x = torch.arange(3.0)
    with pytest.raises(stator.CaptureError, match=r"the function that torch.func.vjp has returned"):
        stator.compile(program, backend="eager", fullgraph=True)(x)
    stator.reset()
    out, pull = stator.compile(program, backend="eager")(x)
    torch.testing.assert_close((out, pull(x)), (x.sin(), (x * x.cos(),)))
