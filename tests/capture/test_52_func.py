# mypy: ignore-errors
"""`torch.func` inside of a program: each transform is a node that holds the function as a graph."""

import collections
import functools
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from torch.utils.checkpoint import checkpoint

import stator

from .harness import Change, Programs, check, module, t

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
programs = Programs()


def net():
    return module(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))


class Pair(NamedTuple):
    a: torch.Tensor
    b: list


# ---------------------------------------------------------------------------- grad


@programs(lambda: (t(3), t(3)), ops=["grad_0"])
def gradient(x, y):
    return grad(lambda z: (z * z * y).sum())(x)


@programs(lambda: (t(3, grad=True), t(3, grad=True)), ops=["grad_0", "mul"])
def differentiable_gradient(x, y):
    return grad(lambda z: (z**3 * y).sum())(x) * 2


@programs(lambda: (t(3, grad=True), t(3)))
def several_arguments(x, y):
    return grad(lambda a, b, c: (a * b).sum() * c, argnums=(0, 1))(x, y, 2.5)


@programs(lambda: (t(3, grad=True), t(3)))
def value_and_more(x, y):
    def f(a, b):
        return (a * b * a).sum(), {"product": a * b, "same": [b]}

    return grad_and_value(f, argnums=1, has_aux=True)(x, y)


@programs(lambda: (t(3, grad=True),), ops=["grad_1"])
def gradient_of_a_gradient(x):
    return grad(lambda y: grad(lambda z: (z**3).sum())(y).sum())(x)


@programs(lambda: (t(3, grad=True),))
def outer_tensor_in_both_roles(x):
    return grad(lambda y: (x * y).sum())(x), grad(
        lambda y: grad(lambda z: (z * y * x).sum())(y).sum()
    )(x)


@programs(lambda: (t(3, grad=True),), changes={"grad mode": Change(under=torch.no_grad)})
def grad_mode_outside_and_inside(x):
    def f(y):
        modes.append(torch.is_grad_enabled())
        with torch.no_grad():
            c = y * y
            modes.append(torch.is_grad_enabled())
        return (y * c).sum()

    modes = []
    with torch.no_grad():
        first = grad(f)(x)
    return first, grad(f)(x), modes


@programs(lambda: (t(3, grad=True),))
def containers_and_other_objects(x):
    def f(pair, *, scale, layers, name):
        assert name == "n" and layers[1] is None
        return (layers[0](pair.a) * pair.b[0] * scale).sum()

    found = grad(f)(Pair(x, [x * 2]), scale=3.0, layers=[torch.sin, None], name="n")
    ordered = grad(lambda d: (d["p"] * d["q"]).sum())(collections.OrderedDict(p=x, q=x + 1))
    return found, type(found).__name__, ordered, type(ordered).__name__


class Energy:
    def __init__(self, scale):
        self.scale = scale

    def of(self, x):
        return (x * x * self.scale).sum()

    def __call__(self, x):
        return self.of(x).sin()


@programs(lambda: (Energy(2.0), t(3)), changes={"scale": lambda: (Energy(3.0), t(3))})
def methods_partials_objects(energy, x):
    weighted = functools.partial(lambda k, y: (y * k).sum(), 2.0)
    return grad(energy.of)(x), grad(energy)(x), grad(weighted)(x), grad(torch.sum)(x)


FACTOR = 2.0
WEIGHT = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def set_factor(value):
    global FACTOR
    FACTOR = value
    WEIGHT.grad = None


@programs(
    lambda: (t(3),),
    reset=lambda: set_factor(2.0),
    changes={"factor": lambda: set_factor(5.0) or (t(3),)},
    world=lambda: WEIGHT,
)
def world_is_read_inside(x):
    return grad(lambda y: (y * y * WEIGHT * FACTOR).sum())(x)


@programs(lambda: ([], t(3)))
def effects_inside(log, x):
    def f(y):
        log.append(tuple(y.shape))
        return (y * y).sum()

    return grad(f)(x), len(log)


@programs(lambda: (t(3),), dead=True)
def handled_inside_and_outside(x):
    def f(y):
        try:
            y.view(7)
        except RuntimeError:
            pass
        raise KeyError("f")

    try:
        return grad(f)(x)
    except KeyError as error:
        return x + 1, error.args


@programs(lambda: (t(3),))
def changes_its_own_tensors(x):
    def f(y):
        z = y.clone()
        z.add_(1)
        z[0] = 5.0
        return (z * z * torch.tensor([1.0, 2.0, 3.0])).sum()

    return grad(f)(x)


@programs(lambda: (t(3),))
def draws_inside(x):
    return grad_and_value(lambda y: (y * torch.rand(3)).sum())(x), torch.rand(2)


@programs(lambda: (t(4, 3),))
def strides_are_seen(x):
    def f(y):
        seen.append((y.stride(), y.is_contiguous()))
        return (y * y.stride(0)).sum()

    seen = []
    return grad(f)(x.t()), grad(f)(x[0].expand(5, 3)), seen


@programs(lambda: (nn.Linear(3, 2), t(3)), backward=False)
def autocast(layer, x):
    def f(y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(y[None]).float().pow(2).sum()

    return grad(f)(x).dtype, grad(f)(x).shape


@programs(lambda: (t(3, grad=True), t(3, grad=True)), dead=True)
def what_requires_grad(x, w):
    def f(y, n):
        made = (y, n, w, y * w, w * 2, n * w, y.detach() * w)
        seen.extend((each.requires_grad, each.is_leaf) for each in made)
        return (y * w * n).sum()

    def outer(y):
        seen.append((y * w).requires_grad)
        return grad(f)(y, y * 2).sum()

    seen = []
    one = grad(f)(x, x + 1), jvp(f, (x, w), (w, x))
    return one, grad(outer)(x), vmap(lambda row: row * row.requires_grad)(x), seen


@programs(lambda: (t(3),), raises=RuntimeError)
def no_scalar(x):
    return grad(lambda y: y * 2)(x)


@programs(lambda: (t(3),), raises=RuntimeError)
def no_such_argument(x):
    return grad(lambda y: y.sum(), argnums=2)(x)


@programs(lambda: (t(3),), raises=RuntimeError)
def aux_that_is_no_tensor(x):
    return grad(lambda y: (y.sum(), 3), has_aux=True)(x)


@programs(lambda: (t(3),))
def errors_of_transforms_are_handled(x):
    told = []
    for attempt in (
        lambda: grad(lambda y: y.sum(), argnums=(0, 0))(x, x),
        lambda: grad(lambda y: y * x.sum())(3.0),
        lambda: jvp(torch.sin, x, x),
        lambda: jvp(torch.sin, (x,), (x, x)),
        lambda: vjp(lambda y: None, x),
    ):
        try:
            attempt()
        except (RuntimeError, ValueError) as error:
            told.append((type(error), str(error)))
    return x + len(told), told


# ---------------------------------------------------------------------------- vjp, jvp


@programs(lambda: (t(3, grad=True), t(3, grad=True)), ops=["vjp_0", "getitem"])
def only_the_value(x, y):
    return vjp(lambda z: (z * y).sin(), x)[0]


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def pulled_back(x, y):
    out, pull = vjp(lambda z: z.sin() * y, x)
    with torch.no_grad():
        last = pull(x)
    return out, pull(y), pull(out * 2)[0] + 1, last


@programs(lambda: (t(3), t(3)))
def pulled_back_with_structure(x, y):
    def f(a, b):
        return {"p": a * b, "q": (a.sum(), b.cos())}, [a + b]

    out, pull, aux = vjp(f, x, y, has_aux=True)
    return out, pull({"p": x, "q": (x.sum(), y)}), aux


@programs(lambda: (t(5),))
def pulled_back_by_the_same_draw(x):
    out, pull = vjp(lambda y: F.dropout(y * y, 0.5), x)
    return out, pull(x), pull(x)


@programs(lambda: (t(3, grad=True), t(3, grad=True)), ops=["jvp_0", "getitem", "getitem"])
def pushed_forward(x, y):
    return jvp(lambda z: z.sin() * y, (x,), (y,))


@programs(lambda: (t(3, grad=True),))
def forward_and_reverse(x):
    return (
        jvp(lambda y: jvp(torch.sin, (y,), (y,))[1], (x,), (x,)),
        grad(lambda y: jvp(torch.sin, (y,), (y,))[1].sum())(x),
        jvp(grad(lambda y: (y**3).sum()), (x,), (x,), has_aux=False),
        jvp(lambda y: (y.sin(), y.cos()), (x,), (x,), has_aux=True),
    )


# ---------------------------------------------------------------------------- jacobians


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def jacobians(x, y):
    return jacrev(lambda z: z.sin() * y)(x), jacfwd(lambda z: z.sin() * y)(x)


@programs(lambda: (t(3), t(2)))
def jacobians_by_several(x, y):
    def f(a, b):
        return {"p": a.sum() * b, "q": (a.cos(),)}

    return jacrev(f, argnums=(0, 1))(x, y), jacfwd(f, argnums=1)(x, y)


@programs(lambda: (t(3),))
def jacobian_in_chunks(x):
    return jacrev(lambda y: y * y, chunk_size=2)(x), jacrev(lambda y: y.cos(), chunk_size=1)(x)


@programs(lambda: (t(3, grad=True),))
def hessians(x):
    def f(y):
        return (y.sin() * y).sum()

    return hessian(f)(x), jacrev(jacrev(f))(x)


@programs(lambda: (t(2, 3),))
def batches_of_jacobians(x):
    return vmap(jacrev(torch.sin))(x), vmap(hessian(lambda y: (y**3).sum()))(x)


# ---------------------------------------------------------------------------- modules


@programs(lambda: (net(), t(5, 4), t(5, 3)), ops=["detach"] * 4 + ["vmap_1"] + ["getitem"] * 4)
def gradients_of_each_sample(m, x, y):
    def loss(parameters, row, target):
        return F.mse_loss(functional_call(m, parameters, (row,)), target)

    parameters = {name: each.detach() for name, each in m.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)


@programs(lambda: (net(), t(5, 4)))
def gradients_of_parameters(m, x):
    found = grad(lambda p: functional_call(m, p, (x,)).pow(2).sum())(dict(m.named_parameters()))
    return found, m(x).sum()


@programs(lambda: (net(), t(4, grad=True)))
def modules_as_functions(m, x):
    return jacrev(m)(x), vjp(m, x)[0]


@programs(lambda: (net(), t(5, 4, grad=True)))
def gradient_penalty(m, x):
    slope = vmap(grad(lambda row: m(row).sum()))(x)
    return ((slope.norm(dim=1) - 1) ** 2).mean() + m(x).mean()


@programs(lambda: (t(2, 3),))
def keyword_arguments_of_vmap(x):
    return vmap(lambda row, *, n: row * n)(x, n=x[0])


@programs(lambda: (t(2, 3),))
def draws_of_each_row(x):
    return vmap(grad(lambda row: (row * torch.rand(3)).sum()), randomness="different")(x)


GRADIENT = grad(lambda x: (x * x * WEIGHT).sum())
programs.add("transformed_before_the_call", GRADIENT, lambda: (t(3),), backward=False)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program) -> None:
    check(program)


# ---------------------------------------------------------------------------- backends


def trained(x, m, w):
    slope = vmap(grad(lambda row: (m(row) * w).sum()))(x)
    out, pull = vjp(lambda y: y.sin() * y, x)
    return ((slope.norm(dim=1) - 1) ** 2).mean(), jacrev(lambda y: m(y) * w)(x[0]), out, pull(x)


def pushed(x, m, w):
    return hessian(lambda y: (m(y) * w).sum())(x[0]), jvp(lambda y: m(y), (x,), (x * 2,))


BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


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


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0]


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
    return grad(lambda y: Square.apply(y).sum())(x)


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


def shown_inside(x):
    return grad(lambda y: (str(y), (y * y).sum())[1])(x)


REFUSED = {
    break_inside: "the program asks for a graph break",
    branch_on_values: "a branch depends on the value of a tensor",
    tensor_leaves: "a tensor has left a region sideways, and is used",
    argument_changed: "a function that is given to torch.func.grad changes its argument",
    outer_tensor_changed: "a tensor from outside is changed in a region of its own",
    grad_mode_left: "a function that is given to torch.func.grad leaves another grad mode",
    function_inside: "a torch.autograd.Function inside of a function that torch.func transforms",
    checkpoint_inside: "torch.utils.checkpoint inside of a function that torch.func transforms",
    pullback_over_a_break: "the program asks for a graph break",
    another_structure: "Expected pytree structure of cotangents",
    inference: "torch.func.grad in inference mode",
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
