"""Hooks that are removed and registered again; functions and models that are made again."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import stator

from .tools import Counting, are_freed

pytestmark = pytest.mark.usefixtures("no_warnings")
CALLS = 8
MADE = [0]


def counting(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A backend that a module has: it lives as long as the process."""
    MADE[0] += 1
    forward: Callable[..., Any] = module.forward
    return forward


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        x = self.linear(x)
        return x if scale is None else x * scale


def added(module: Any, args: Any, out: Any) -> Any:
    return out + 1


def doubled(module: Any, args: Any, out: Any) -> Any:
    return out * 2


def scaled(module: Any, args: Any, kwargs: Any, out: Any) -> Any:
    return out * kwargs["scale"]


def before(module: Any, args: Any) -> Any:
    return (args[0] + 3,)


X, SCALE = torch.ones(2, 4), torch.full((1,), 2.0)


def registered(model: Block, kind: str) -> Any:
    match kind:
        case "forward":
            return model.register_forward_hook(added)
        case "kwargs":
            return model.register_forward_hook(scaled, with_kwargs=True)
        case "before":
            return model.register_forward_pre_hook(before)
        case "inside":
            return model.linear.register_forward_hook(added)
        case "lambda":
            return model.register_forward_hook(lambda m, a, out: out - 1)
        case _:
            return model.register_forward_hook(added, always_call=True)


@pytest.mark.parametrize("kind", ["forward", "kwargs", "before", "inside", "lambda"])
def test_the_same_hook_again(kind: str) -> None:
    model, backend = Block(), Counting()
    compiled = stator.compile(model, backend=backend)
    for _ in range(CALLS):
        handle = registered(model, kind)
        assert torch.equal(compiled(X, scale=SCALE), model(X, scale=SCALE))
        handle.remove()
    assert backend.graphs == 1  # it is traced once more, and the graph is the same
    for _ in range(2):
        assert torch.equal(compiled(X, scale=SCALE), model(X, scale=SCALE))
    assert backend.graphs == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_in_any_order(backend: str) -> None:
    """With numbers left open: others, more, fewer, in another order, with other flags."""
    model = Block()
    compiled = stator.compile(model, backend=backend, recompile_limit=64)
    kinds = ["forward", "forward", "forward", "kwargs", "before", "lambda", "always", "inside"]
    for n in range(3 * len(kinds)):
        chosen = [kinds[n % len(kinds)], *(kinds[n * m % 7] for m in range(n % 4))]
        handles = [registered(model, kind) for kind in chosen]
        assert torch.equal(compiled(X, scale=SCALE), model(X, scale=SCALE))
        for handle in handles:
            handle.remove()


def test_another_hook_in_its_place() -> None:
    model = Block()
    compiled = stator.compile(model, backend="eager", recompile_limit=64)
    for n in range(CALLS):
        handle = model.register_forward_hook((added, doubled)[n % 3 == 2])
        assert torch.equal(compiled(X), model(X))
        handle.remove()


def test_two_hooks_change_places() -> None:
    model = Block()
    compiled = stator.compile(model, backend="eager", recompile_limit=64)
    for n in range(CALLS):
        pair = (added, doubled) if n % 4 < 2 else (doubled, added)
        handles = [model.register_forward_hook(hook) for hook in pair]
        assert torch.equal(compiled(X), model(X))
        for handle in handles:
            handle.remove()


def test_hooks_over_other_values() -> None:
    """Alike but for what they close over."""
    model = Block()
    compiled = stator.compile(model, backend="eager", recompile_limit=64)
    for n in range(CALLS):

        def hook(module: Any, args: Any, out: Any, n: int = n) -> Any:
            return out + n

        handles: list[Any] = [
            model.register_forward_hook(hook),
            model.register_forward_hook(lambda m, a, out: out * len(handles)),  # noqa: B023
        ]
        assert torch.equal(compiled(X), model(X))
        for handle in handles:
            handle.remove()


def test_a_program_that_reads_the_numbers() -> None:
    def numbers(model: Any, x: Tensor) -> Any:
        return model(x), list(model._forward_hooks), len(model._forward_hooks)

    model = Block()
    compiled = stator.compile(numbers, backend="eager", recompile_limit=64)
    for _ in range(CALLS):
        handle = model.register_forward_hook(added)
        found, expected = compiled(model, X), numbers(model, X)
        assert torch.equal(found[0], expected[0])
        assert found[1:] == expected[1:]
        handle.remove()


def test_a_hook_that_removes_itself() -> None:
    model = Block()
    compiled = stator.compile(model, backend="eager", recompile_limit=64)
    for _ in range(CALLS):
        for call in (compiled, model):

            def once(module: Any, args: Any, out: Any) -> Any:
                handle.remove()  # noqa: B023
                return out + 5

            handle = model.register_forward_hook(once)
            with_hook, without = call(X), call(X)
            assert torch.equal(with_hook, without + 5)
            assert not model._forward_hooks


# ---- made again


def test_models_that_are_dropped() -> None:
    MADE[0] = 0
    for _ in range(CALLS):
        x = torch.randn(2, 4)
        model = Block()
        result = stator.compile(model, backend=counting)(x)
        assert torch.equal(result, model(x))
        del model
        gc.collect()
    assert MADE[0] == 1


def test_functions_that_are_dropped() -> None:
    def run(weight: Tensor, factor: int, x: Tensor) -> Any:
        @stator.compile(backend=counting)
        def times(x: Tensor) -> Tensor:
            return x * weight * factor

        return times(x)

    MADE[0] = 0
    for n in range(CALLS):
        weight, x = torch.randn(4), torch.randn(4)
        assert torch.equal(run(weight, n + 2, x), x * weight * (n + 2))
        gc.collect()
    assert MADE[0] == 2


def test_reset_forgets_them() -> None:
    MADE[0] = 0
    for _ in range(3):
        stator.compile(Block(), backend=counting)(X)
        stator.reset()
    assert MADE[0] == 3


def test_what_they_hold_is_freed() -> None:
    references: list[Any] = []
    for _ in range(3):
        model = Block()
        stator.compile(model, backend=counting)(X)
        references += [weakref.ref(model), weakref.ref(model.linear.weight)]
        del model
    assert are_freed(*references)


def test_a_method_as_backend() -> None:
    class Own:
        graphs = 0

        def backend(self, module: torch.fx.GraphModule, inputs: Any) -> Any:
            self.graphs += 1
            return module.forward

    own, other = Own(), Own()
    kept = [stator.compile(Block(), backend=own.backend) for _ in range(3)]
    for model in [*kept, stator.compile(Block(), backend=other.backend)]:
        model(X)
    assert (own.graphs, other.graphs) == (1, 1)
