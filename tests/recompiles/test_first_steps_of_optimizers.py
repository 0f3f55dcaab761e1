# mypy: ignore-errors
"""The first step of an optimizer makes its state: Inductor compiles the steps behind it."""

import pytest
import torch
from torch import nn

import stator
from tests import stand_in

KINDS = {
    "SGD": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    "one by one": (torch.optim.Adam, {"lr": 0.01, "foreach": False}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.01}),  # which makes its state when it is made
}


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()


@pytest.fixture
def given(monkeypatch):
    return stand_in.install(monkeypatch)


def trained(kind, options, wrap, whole=False):
    """Parameters and state after some steps; another group of parameters comes in between."""
    torch.manual_seed(0)
    model, more = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = kind(model.parameters(), **options)
    x = torch.randn(8, 4)

    def learn():
        optimizer.zero_grad()
        (more(model(x)).square().mean()).backward()
        optimizer.step()

    def both():
        optimizer.zero_grad()
        (more(model(x)).square().mean()).backward()
        step()

    step = wrap(optimizer.step)
    call = wrap(learn) if whole else both
    for number in range(6):
        if number == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
        if number == 5 and kind is not torch.optim.Adagrad:
            optimizer.state.clear()  # from the beginning
        call()
    state = [list(each.values()) for each in optimizer.state.values()]
    return [*(p.detach().clone() for p in model.parameters()), *state]


@pytest.mark.parametrize("name", KINDS)
def test_steps(name, given):
    kind, options = KINDS[name]
    expected = trained(kind, options, lambda step: step)
    found = trained(kind, options, stator.compile)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    counts = stator.counters()
    assert counts["captured"] == counts["calls"] == 6 and counts["eager"] == 0
    # Two first steps, with different learning rates; and the others, before and behind the change.
    assert counts["torch_kernels"] == (0 if name == "Adagrad" else 2)
    assert len(given) == 2
    assert not any("zeros_like" in each for graph in given for each in graph)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_inside_of_a_training_step(name, given):
    kind, options = KINDS[name]
    expected = trained(kind, options, lambda step: step, whole=True)
    found = trained(kind, options, stator.compile, whole=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert stator.counters()["eager"] == 0


def test_without_the_setting(given):
    kind, options = KINDS["Adam"]
    with stator.config.patch(torch_kernels=False):
        trained(kind, options, stator.compile)
    assert stator.counters()["torch_kernels"] == 0
    assert any("zeros_like" in each for each in given[0])


def test_a_dict_called_state_is_none_of_an_optimizer(given):
    class Holder:
        def __init__(self):
            self.state = {}

        def step(self, x):
            self.state["x"] = x * 2 + 1
            return self.state["x"]

    holder = Holder()
    step = stator.compile(holder.step)
    step(torch.ones(3))
    assert len(given) == 1 and stator.counters()["torch_kernels"] == 0
