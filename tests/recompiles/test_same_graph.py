"""Hooks under other numbers: the call is traced again, and an equal graph is compiled once."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import stator

from .tools import Counting

pytestmark = pytest.mark.usefixtures("no_warnings")
FACTOR = [2.0]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, index: Tensor | None = None) -> Any:
        x = self.linear(x).relu()
        return x if index is None else x.gather(0, index)


def doubled(module: Any, args: Any, out: Tensor) -> Tensor:
    return out * 2


def scaled(module: Any, args: Any, out: Tensor) -> Tensor:
    return out * FACTOR[0]


def calls(model: Block, compiled: Any, hook: Any, x: Tensor, *rest: Any) -> tuple[Any, Any]:
    """A call with a hook that is there for this call only, compiled and as it is."""
    handle = model.register_forward_hook(hook)
    try:
        return compiled(x, *rest), model(x, *rest)
    finally:
        handle.remove()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str) -> None:
    model = Block()
    compiled = stator.compile(model, backend=backend)
    for _ in range(5):
        x = torch.randn(2, 4, requires_grad=True)
        found, expected = calls(model, compiled, doubled, x)
        parameters = [x, *model.parameters()]
        for a, b in zip(
            torch.autograd.grad(found.square().sum(), parameters),
            torch.autograd.grad(expected.square().sum(), parameters),
            strict=True,
        ):
            assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("change", "graphs"),
    [
        (lambda n: torch.ones(2, 4), 1),
        (lambda n: torch.ones(2, 4, requires_grad=True), 1),
        (lambda n: torch.ones(2 + n, 4), 2),  # its size is open then
        (lambda n: torch.ones(2, 4, requires_grad=n > 1), 2),
        (lambda n: torch.ones(4, 2 + (n > 1)).T[:, :1].expand(2 + (n > 1), 4), 2),
    ],
    ids=["same", "requires_grad", "size", "grad_changes", "strides"],
)
def test_other_inputs_are_other_graphs(change: Any, graphs: int) -> None:
    model, backend = Block(), Counting()
    compiled = stator.compile(model, backend=backend)
    for n in range(4):
        found, expected = calls(model, compiled, doubled, change(n))
        assert torch.equal(found, expected)
        assert found.requires_grad == expected.requires_grad
    assert backend.graphs >= graphs


def test_a_constant_in_the_graph() -> None:
    """Another factor is another graph, until it is left open."""
    model, backend = Block(), Counting()
    compiled = stator.compile(model, backend=backend)
    for factor in (2.0, 2.0, 3.0, 2.0, 0.0, -0.0):
        FACTOR[0] = factor
        found, expected = calls(model, compiled, scaled, torch.ones(2, 4))
        assert str(found) == str(expected)
    assert 2 <= backend.graphs <= 4


def test_grad_mode() -> None:
    model = Block()
    compiled = stator.compile(model, backend="aot_eager")
    for n in range(6):
        with torch.set_grad_enabled(n % 2 == 0):
            found, expected = calls(model, compiled, doubled, torch.ones(2, 4))
        assert found.requires_grad == expected.requires_grad == (n % 2 == 0)


def test_aliases() -> None:
    """The same tensor twice is not two tensors."""

    def changed(model: Block, a: Tensor, b: Tensor) -> Any:
        a.add_(1)
        return model(a) + b

    compiled, model = stator.compile(changed, backend="aot_eager"), Block()
    for n in range(6):
        handle = model.register_forward_hook(doubled)
        x, y = torch.ones(2, 4), torch.ones(2, 4)
        found = compiled(model, x, x) if n % 2 else compiled(model, x, torch.ones(2, 4))
        expected = changed(model, y, y) if n % 2 else changed(model, y, torch.ones(2, 4))
        assert torch.equal(found, expected)
        assert torch.equal(x, y)
        handle.remove()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_errors_name_the_line(backend: str) -> None:
    model = Block()
    compiled = stator.compile(model, backend=backend)
    for n in range(4):
        index = torch.full((1, 4), 9 * (n % 2))
        if n % 2 == 0:
            found, expected = calls(model, compiled, doubled, torch.ones(2, 4), index)
            assert torch.equal(found, expected)
            continue
        with pytest.raises(RuntimeError, match="out of bounds") as caught:
            calls(model, compiled, doubled, torch.ones(2, 4), index)
        assert caught.traceback[-1].name == "forward"


def test_nothing_is_kept_alive() -> None:
    """What an entry keeps of a graph goes with the entry."""
    backend = Counting()
    for _ in range(3):
        model = Block()
        compiled = stator.compile(model, backend=backend)
        for _ in range(3):
            found, expected = calls(model, compiled, doubled, torch.ones(2, 4))
            assert torch.equal(found, expected)
        stator.reset()
    assert backend.graphs == 3
