# mypy: ignore-errors
"""Which modules are regions without marks: those that look alike; what makes them none."""

import copy

import pytest
import torch
from torch import nn

import stator

from .test_nested import Seen, check


class Conv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(x + self.norm(self.one(x)))


def stages():
    return nn.Sequential(
        nn.Sequential(*(Conv(2) for _ in range(4))),
        nn.Conv2d(2, 3, 1),
        nn.Sequential(*(Conv(3) for _ in range(4))),
        nn.Sigmoid(),
    ).eval()


def test_blocks_of_stages_that_differ():
    check(stages, torch.randn(2, 2, 4, 4, requires_grad=True), bodies=[[4, 4]], regions="auto")


def test_transformer_encoder():
    def make():
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 5).eval()

    seen = check(make, torch.randn(2, 3, 8, requires_grad=True), bodies=[[4]], regions="auto")
    assert seen.graphs


def test_a_module_that_is_a_part_of_several():
    class Shared(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part, self.own = part, nn.Linear(4, 4)

        def forward(self, x):
            return self.own(self.part(x))

    part = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    model = nn.Sequential(Shared(part), nn.Linear(4, 4), Shared(part), part)
    other, x = copy.deepcopy(model), torch.randn(3, 4)
    torch.testing.assert_close(stator.compile(other, backend="eager", regions="auto")(x), model(x))


def test_it_goes_as_far_as_without_regions():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 4)

        def forward(self, x):
            kept = x[x.sum(1) > -100]
            return self.one(kept) if kept.shape[0] != 7 else kept

    model = nn.Sequential(Branches(), Branches())
    plain, auto, x = Seen(), Seen(), torch.randn(3, 4)
    expected = stator.compile(model, backend=plain)(x)
    torch.testing.assert_close(stator.compile(model, backend=auto, regions="auto")(x), expected)
    assert len(auto.graphs) == len(plain.graphs)


def test_a_backend_that_wraps_the_forward():
    """Training works, though torch's operator has no gradient there."""

    def backend(module, inputs):
        return lambda *given: module(*given)

    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
    other = copy.deepcopy(model)
    compiled = stator.compile(other, backend=backend, regions="auto")
    x = torch.randn(2, 4)
    compiled(x).sum().backward()
    model(x).sum().backward()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


@pytest.mark.parametrize("change", ["shape", "dtype", "grad", "eps", "hook", "module", "tied"])
def test_a_later_change_of_one_layer(change):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.one = nn.LayerNorm(4), nn.Linear(4, 4)

        def forward(self, x):
            return x + self.one(self.norm(x))

    model = nn.Sequential(*(Normed() for _ in range(6)))
    compiled = stator.compile(model, backend="eager", regions="auto")
    x = torch.randn(2, 4)
    torch.testing.assert_close(compiled(x), model(x))
    layer = model[4]
    if change == "shape":
        layer.one.weight = nn.Parameter(torch.randn(1, 4))
        layer.one.bias = nn.Parameter(torch.randn(1))
    elif change == "dtype":
        model.double()
        x = x.double()
    elif change == "grad":
        layer.one.weight.requires_grad_(False)
    elif change == "eps":
        layer.norm.eps = 1.0
    elif change == "hook":
        layer.one.register_forward_hook(lambda *_: torch.ones(2, 4))
    elif change == "module":
        model[4] = nn.Tanh()
    else:
        layer.one.weight = model[1].one.weight
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    found = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for one, each in zip(found, model.parameters(), strict=True):
        assert (one is None) == (each.grad is None)
        torch.testing.assert_close(one, each.grad)


def test_tied_weights_and_views_of_one_memory():
    class Tied(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.norm, self.weight = nn.LayerNorm(4), nn.Parameter(weight)

        def forward(self, x):
            return self.norm(x) @ self.weight

    memory = torch.randn(6, 4, 4)
    layers = [Tied(memory[i]) for i in range(3)] + [Tied(torch.randn(4, 4)) for _ in range(4)]
    layers[5].weight = layers[4].weight
    layers[6].weight = nn.Parameter(layers[3].weight.data.view(4, 4))
    model = nn.Sequential(*layers)
    compiled = stator.compile(model, backend="aot_eager", regions="auto")
    for _ in range(2):
        x = torch.randn(2, 4)
        torch.testing.assert_close(compiled(x), model(x))
        with torch.no_grad():
            memory.mul_(1.5)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(torch.relu(self.one(x)))


def test_modules_that_are_called_by_turns_and_share_a_part():
    def make():
        torch.manual_seed(0)
        one, two = Normed(), Normed()
        two.norm = one.norm
        return nn.Sequential(one, two, one, two, one)

    x = torch.randn(3, 4, requires_grad=True)
    check(make, x, bodies=[[2, 3]], regions="auto")
    model = make()
    compiled = stator.compile(model, backend="eager", regions="auto")
    changes = [
        lambda: None,
        lambda: setattr(model[1], "one", model[0].one),
        lambda: setattr(model[0].one, "weight", nn.Parameter(torch.ones(4, 4))),
        lambda: model.__setitem__(2, Normed()),
        lambda: model.__setitem__(4, model[1]),
        lambda: setattr(model[1], "norm", nn.LayerNorm(4, eps=0.5)),
    ]
    for change in changes:
        change()
        torch.testing.assert_close(compiled(x), model(x))
