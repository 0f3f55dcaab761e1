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

from tests.versions import TORCH

from .harness import Change, Programs, check, module, t

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
programs = Programs()
# Before 2.13, torch computes numbers of Jacobians as tensors: a trace knows them.
FOLDED = TORCH < (2, 13)


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


@programs(lambda: (t(3, grad=True), t(3, grad=True)), free=FOLDED)
def jacobians(x, y):
    return jacrev(lambda z: z.sin() * y)(x), jacfwd(lambda z: z.sin() * y)(x)


@programs(lambda: (t(3), t(2)), free=FOLDED)
def jacobians_by_several(x, y):
    def f(a, b):
        return {"p": a.sum() * b, "q": (a.cos(),)}

    return jacrev(f, argnums=(0, 1))(x, y), jacfwd(f, argnums=1)(x, y)


@programs(lambda: (t(3),), free=FOLDED)
def jacobian_in_chunks(x):
    return jacrev(lambda y: y * y, chunk_size=2)(x), jacrev(lambda y: y.cos(), chunk_size=1)(x)


@programs(lambda: (t(3, grad=True),), free=FOLDED)
def hessians(x):
    def f(y):
        return (y.sin() * y).sum()

    return hessian(f)(x), jacrev(jacrev(f))(x)


@programs(lambda: (t(2, 3),), free=FOLDED)
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


@programs(lambda: (net(), t(4, grad=True)), free=FOLDED)
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
    if FOLDED and program.name == "jacobians_by_several":
        pytest.skip("torch 2.11 needs values for it: a break")
    check(program)
