# mypy: ignore-errors
"""`torch.func` as programs use it: training in training, kernels, equations, ensembles."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from tests.versions import TORCH

from .harness import Programs, check, module, t

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
programs = Programs()
FOLDED = TORCH < (2, 13)  # see test_52_func


def mlp():
    return module(lambda: nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)))


def cnn():
    layers = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    return module(lambda: nn.Sequential(*layers))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.norm = nn.LayerNorm(4)
        self.project = nn.Linear(4, 12)
        self.head = nn.Linear(4, 7)

    def forward(self, ids):
        x = self.embedding(ids)
        q, k, v = (part[None] for part in self.project(self.norm(x)).chunk(3, -1))
        return self.head(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)[0])


@programs(lambda: (cnn(), t(4, 1, 8, 8)))
def gradients_of_each_image(m, images):
    def loss(parameters, image, label):
        return F.cross_entropy(functional_call(m, parameters, (image[None],)), label[None])

    parameters = {name: each.detach() for name, each in m.named_parameters()}
    labels = torch.tensor([0, 1, 2, 0])
    return vmap(grad_and_value(loss), in_dims=(None, 0, 0))(parameters, images, labels)


@programs(lambda: (module(Attention), torch.arange(10).reshape(2, 5) % 7))
def gradients_of_each_text(m, ids):
    def loss(parameters, row):
        return F.cross_entropy(functional_call(m, parameters, (row,))[:-1], row[1:])

    parameters = {name: each.detach() for name, each in m.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0))(parameters, ids)


@programs(lambda: (mlp(), t(2, 3, 2), t(2, 3, 2)))
def training_in_training(m, support, query):
    def loss(parameters, points):
        found = functional_call(m, parameters, (points,))
        return (found - points.sum(-1, keepdim=True)).pow(2).mean()

    def task(first, second):
        parameters = dict(m.named_parameters())
        for _ in range(2):
            slopes = grad(loss)(parameters, first)
            parameters = {name: parameters[name] - 0.1 * slopes[name] for name in parameters}
        return loss(parameters, second)

    return vmap(task)(support, query).mean()


@programs(lambda: (mlp(), t(3, 2)), free=FOLDED)
def kernel_of_jacobians(m, x):
    parameters = {name: each.detach() for name, each in m.named_parameters()}

    def f(weights, row):
        return functional_call(m, weights, (row,))

    found = vmap(jacrev(f), (None, 0))(parameters, x)
    flat = [each.flatten(2) for each in found.values()]
    return sum(torch.einsum("Naf,Mbf->NMab", each, each) for each in flat)


@programs(lambda: (mlp(), t(3, 2)))
def kernel_of_products(m, x):
    parameters = {name: each.detach() for name, each in m.named_parameters()}

    def kernel(one, other):
        out, pull = vjp(lambda p: functional_call(m, p, (one,)), parameters)

        def column(v):
            return jvp(lambda p: functional_call(m, p, (other,)), (parameters,), pull(v))[1]

        return vmap(column)(torch.eye(out.numel()))

    return vmap(vmap(kernel, (None, 0)), (0, None))(x, x)


@programs(lambda: (mlp(), t(4, 2)))
def differential_equation(m, points):
    def u(time, place):
        return m(torch.stack([time, place])).squeeze()

    by_time = vmap(grad(u, 0))(points[:, 0], points[:, 1])
    twice = vmap(grad(grad(u, 1), 1))(points[:, 0], points[:, 1])
    return (by_time - twice).pow(2).mean()


@programs(lambda: (mlp(), t(4, 2, grad=True)), free=FOLDED)
def laplacian(m, points):
    def at(point):
        return hessian(lambda p: m(p).squeeze())(point).trace()

    return vmap(at)(points).pow(2).mean()


@programs(lambda: (mlp(), t(4, 2)))
def sampling_by_gradients(m, x):
    for _ in range(3):
        x = x - 0.1 * grad(lambda y: m(y).sum())(x) + 0.01 * torch.randn_like(x)
    return x


@programs(lambda: (mlp(), t(4, 2, grad=True)))
def products_with_the_hessian(m, x):
    def f(y):
        return m(y).pow(2).sum()

    return jvp(grad(f), (x,), (x,))[1], vjp(grad(f), x)[1](x)[0]


def stacked():
    layers = [module(nn.Linear, 3, 2) for _ in range(3)]
    return stack_module_state(layers), copy.deepcopy(layers[0]).to("meta"), t(4, 3)


@programs(stacked)
def ensemble(state, base, x):
    return vmap(lambda each, y: functional_call(base, each, (y,)), in_dims=(0, None))(state, x)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program) -> None:
    check(program)
