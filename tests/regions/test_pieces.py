"""Graphs that call regions are compiled in pieces: the same values, gradients and memory."""

import copy
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.backends import BackendError
from stator.backends.compile import as_it_is
from stator.diagnostics.artefacts import Title
from stator.driver import backend
from stator.driver.pieces import Pieces, taken_apart


class Layer(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        return x + self.two(torch.relu(self.one(x)))


class Model(nn.Module):
    def __init__(self, count: int = 8, layer: Any = Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(count))
        self.before, self.behind = nn.Linear(4, 4), nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        x = self.before(x)
        for layer in self.layers:
            x = self.between(layer(x))
        return self.end(x)

    def between(self, x: Any) -> Any:
        return x

    def end(self, x: Any) -> Any:
        return self.behind(x)


class Backend:
    """Runs the pieces of a graph as they are, if it is taken apart."""

    def __init__(self) -> None:
        self.parts: Pieces | None = None

    def __call__(self, module: Any, examples: Any) -> Any:
        self.parts = taken_apart(module, examples)
        if self.parts is None:
            return module.forward
        return self.parts.joined(
            [as_it_is(each.module) for each in self.parts.pieces], Title("f", 1)
        )


def compared(model: Any, x: torch.Tensor, *, train: bool = False) -> Pieces | None:
    """The model compiled in pieces, next to eager, in two calls."""
    other, found = copy.deepcopy(model), Backend()
    compiled = stator.compile(other, backend=found, fullgraph=True, regions="auto")
    with torch.set_grad_enabled(train):
        for _ in range(2):
            given = [x.detach().clone().requires_grad_(train) for _ in range(2)]
            expected, result = model(given[0]), compiled(given[1])
            torch.testing.assert_close(result, expected)
            if train:
                total(expected).backward()
                total(result).backward()
                torch.testing.assert_close(given[1].grad, given[0].grad)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None)
        torch.testing.assert_close(one.grad, two.grad)
    return found.parts


def total(result: Any) -> Any:
    tensors = result if isinstance(result, tuple | list) else [result]
    return sum(each.sum() for each in tensors if each.requires_grad)


@pytest.mark.parametrize("train", [False, True])
def test_a_body_is_one_piece_however_often_it_is_called(train: bool) -> None:
    parts = compared(Model(), torch.randn(3, 4), train=train)
    assert parts is not None
    assert len(parts.pieces) == 3
    assert [step.piece for step in parts.steps] == [0, *[1] * 8, 2]


@pytest.mark.parametrize("train", [False, True])
def test_what_lies_between_is_one_piece_if_it_is_the_same(train: bool) -> None:
    class Between(Model):
        def between(self, x: Any) -> Any:
            return torch.tanh(x) * 0.5

    parts = compared(Between(), torch.randn(3, 4), train=train)
    assert parts is not None
    assert len(parts.pieces) == 4
    assert len(parts.steps) == 17


def test_too_much_that_lies_between() -> None:
    class Between(Model):
        def between(self, x: Any) -> Any:
            self.count = getattr(self, "count", 0) + 1
            return x * self.count

    assert compared(Between(), torch.randn(3, 4)) is None


def test_few_calls_stay_in_one_graph() -> None:
    assert compared(Model(4), torch.randn(3, 4)) is None


def test_layers_that_stay_alive_to_the_end() -> None:
    class All(Model):
        def forward(self, x: Any) -> Any:
            states = [x]
            for layer in self.layers:
                states.append(layer(states[-1]))
            return [*states, torch.stack(states).mean(0)]

    for train in (False, True):
        assert compared(All(), torch.randn(3, 4), train=train) is not None


def test_results_that_share_memory() -> None:
    class Views(Model):
        def end(self, x: Any) -> Any:
            return x, x.view(-1), x[1:]

    model, found = Views().requires_grad_(False), Backend()
    compiled = stator.compile(model, backend=found, regions="auto")
    a, b, c = compiled(torch.randn(3, 4))
    assert found.parts is not None
    a.zero_()
    assert not b.any()
    assert not c.any()


def test_a_view_of_an_input_is_an_operand() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.scale = nn.Linear(4, 4), nn.Parameter(torch.ones(4))

        def forward(self, x: Any, other: Any) -> Any:
            return self.one(x) * other + self.scale

    class Views(Model):
        def __init__(self) -> None:
            super().__init__(8, Given)
            self.table = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: Any) -> Any:
            other = self.table.t()
            for layer in self.layers:
                x = layer(x, other)
            return x

    for train in (False, True):
        assert compared(Views(), torch.randn(3, 4), train=train) is not None


class Two(nn.Module):
    """Two results."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.one(x), self.two(x)


def test_a_result_without_a_gradient_of_a_piece_with_two() -> None:
    class Model2(Model):
        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x, other = layer(x)
            return x, other.detach()

    model = Model2(8, Two)
    for train in (False, True):
        assert compared(copy.deepcopy(model), torch.randn(3, 4), train=train) is not None


def test_a_piece_with_two_gradients() -> None:
    class Model2(Model):
        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x, other = layer(x)
                x = x + other
            return x

    model = Model2(8, Two)
    assert compared(copy.deepcopy(model), torch.randn(3, 4), train=False) is not None
    assert compared(model, torch.randn(3, 4), train=True) is None


def test_what_changes_something_stays_whole() -> None:
    class Changes(Model):
        def between(self, x: Any) -> Any:
            return x.mul_(2)

    model = Changes().requires_grad_(False)
    assert compared(model, torch.randn(3, 4)) is None


def test_open_sizes_stay_whole() -> None:
    found = Backend()
    model = Model().requires_grad_(False)
    compiled = stator.compile(model, backend=found, regions="auto", dynamic=True)
    x = torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), model(x))
    assert found.parts is None


def test_the_memory_of_what_nothing_uses_any_more() -> None:
    """Of the results of layers, two are there at a time."""
    found = Backend()
    stator.compile(Model().requires_grad_(False), backend=found, regions="auto")(torch.randn(3, 4))
    parts = found.parts
    assert parts is not None
    alive: list[int] = []
    living: set[int] = set()

    def piece(*given: torch.Tensor) -> Any:
        made = torch.zeros(3, 4)
        living.add(id(made))
        weakref.finalize(made, living.discard, id(made))
        alive.append(len(living))
        return (made,)

    joined = parts.joined([piece] * len(parts.pieces), Title("f", 1))
    joined(*[torch.zeros(1) for _ in parts.inputs])
    assert max(alive) == 2


@pytest.mark.parametrize("train", [False, True])
def test_inductor_compiles_each_piece_once(train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    alone = backend._alone

    def counted(module: Any, *args: Any) -> Any:
        made.append(len(module.graph.nodes))
        return alone(module, *args)

    monkeypatch.setattr(backend, "_alone", counted)
    monkeypatch.setattr(backend, "_not_worth_compiling", lambda *_: None)
    monkeypatch.setattr(backend, "_waits", lambda *_: None)
    model = Model()
    other = copy.deepcopy(model)
    compiled = stator.compile(other, fullgraph=True, regions="auto")
    with torch.set_grad_enabled(train):
        for _ in range(2):
            x = torch.randn(3, 4)
            expected, result = model(x), compiled(x)
            torch.testing.assert_close(result, expected)
            if train:
                expected.sum().backward()
                result.sum().backward()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)
    assert len(made) == 3


def test_a_piece_that_inductor_fails_on(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, asked = backend._alone, [0]

    def failing(module: Any, *args: Any) -> Any:
        asked[0] += 1
        if asked[0] == 2:
            raise BackendError("inductor", "failed", "")
        return alone(module, *args)

    monkeypatch.setattr(backend, "_alone", failing)
    monkeypatch.setattr(backend, "_not_worth_compiling", lambda *_: None)
    monkeypatch.setattr(backend, "_waits", lambda *_: None)
    model = Model().requires_grad_(False)
    x = torch.randn(3, 4)
    result = stator.compile(model, fullgraph=True, regions="auto")(x)
    torch.testing.assert_close(result, model(x))
    assert asked[0] == 3
