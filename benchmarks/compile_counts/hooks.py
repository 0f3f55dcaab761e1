"""Hooks, and models that are made or changed between calls."""

import copy
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.compile_counts.program import Engine, program


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Any:
        x = torch.relu(self.linear(x))
        return x if scale is None else x * scale


@program
def same_hook_again(e: Engine) -> Iterator[Any]:
    model = Block()
    seen: list[Any] = []

    def hook(module: Any, args: Any, out: Any) -> None:
        seen.append(out.shape)

    compiled = e.compile(model)
    for _ in range(10):
        handle = model.register_forward_hook(hook)
        yield compiled(torch.randn(2, 4))
        handle.remove()
    yield len(seen)


@program
def hook_with_kwargs(e: Engine) -> Iterator[Any]:
    model = Block()

    def hook(module: Any, args: Any, kwargs: Any, out: Any) -> Any:
        return out + 1

    compiled = e.compile(model)
    for _ in range(10):
        handle = model.register_forward_hook(hook, with_kwargs=True)
        yield compiled(torch.randn(2, 4), scale=torch.ones(1))
        handle.remove()
        yield compiled(torch.randn(2, 4), scale=torch.ones(1))


@program
def pre_hook_on_child(e: Engine) -> Iterator[Any]:
    model = Block()
    compiled = e.compile(model)
    for _ in range(10):
        with_hook = model.linear.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
        yield compiled(torch.randn(2, 4))
        with_hook.remove()


@program
def hook_made_per_call(e: Engine) -> Iterator[Any]:
    model = Block()
    compiled = e.compile(model)
    kept: list[Tensor] = []
    for _ in range(10):

        def hook(m: Any, a: Any, out: Tensor) -> None:
            kept.append(out)

        handle = model.register_forward_hook(hook)
        yield compiled(torch.randn(2, 4))
        handle.remove()
    yield len(kept)


@program
def hook_passed_as_argument(e: Engine) -> Iterator[Any]:
    def double(x: Tensor) -> Any:
        return x * 2

    @e.compile
    def run(x: Tensor, hook: Any) -> Any:
        return hook(x.sin())

    for _ in range(10):
        yield run(torch.randn(3), double)


@program
def tensor_hook(e: Engine) -> Iterator[Any]:
    """torch is wrong: the hook's code is in its graph, with what it read when the call was traced.

    A hook that reads a list which changes before `backward()` computes with the old contents. Here
    the graph ends at `register_hook`, and the hook runs as it is.
    """

    @e.compile
    def run(x: Tensor) -> Any:
        y = x * 2
        watched: Any = y
        watched.register_hook(lambda g: g * 3)
        return y.sum()

    for _ in range(10):
        x = torch.randn(3, requires_grad=True)
        run(x).backward()
        yield x.grad


@program
def models_in_a_loop(e: Engine) -> Iterator[Any]:
    for _ in range(10):
        yield e.compile(Block())(torch.randn(2, 4))


@program
def models_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(model: Any, x: Tensor) -> Any:
        return model(x).sum()

    for _ in range(10):
        yield run(Block(), torch.randn(2, 4))


@program
def closures_over_models(e: Engine) -> Iterator[Any]:
    def make(model: nn.Module) -> Any:
        def loss(x: Tensor) -> Any:
            return model(x).square().mean()

        return e.compile(loss)

    for _ in range(10):
        yield make(Block())(torch.randn(2, 4))


@program
def closures_over_numbers(e: Engine) -> Iterator[Any]:
    def make(factor: float) -> Any:
        def times(x: Tensor) -> Any:
            return x * factor

        return e.compile(times)

    for n in range(10):
        yield make(float(n) + 2.5)(torch.randn(2, 4))


@program
def closures_over_tensors(e: Engine) -> Iterator[Any]:
    def make(weight: Tensor) -> Any:
        return e.compile(lambda x: x * weight)

    for _ in range(10):
        yield make(torch.randn(4))(torch.randn(2, 4))


@program
def partials_made_per_call(e: Engine) -> Iterator[Any]:
    def scaled(weight: Tensor, x: Tensor, bias: Tensor) -> Any:
        return x * weight + bias

    @e.compile
    def run(f: Any, x: Tensor) -> Any:
        return f(x, bias=x)

    for _ in range(10):
        yield run(functools.partial(scaled, torch.randn(4)), torch.randn(2, 4))


@program
def lambda_made_per_call(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(f: Any, x: Tensor) -> Any:
        return f(x) + 1

    for _ in range(10):
        yield run(lambda v: v.sin() * 2, torch.randn(2, 4))


@program
def lambda_over_a_tensor(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(f: Any, x: Tensor) -> Any:
        return f(x) + 1

    for _ in range(10):
        w = torch.randn(4)
        yield run(lambda v, w=w: v * w, torch.randn(2, 4))


@program
def bound_methods(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(f: Any, x: Tensor) -> Any:
        return f(x) + 1

    for _ in range(10):
        yield run(Block().forward, torch.randn(2, 4))


@program
def deepcopied_model(e: Engine) -> Iterator[Any]:
    model = Block()
    for _ in range(10):
        model = copy.deepcopy(model)
        yield e.compile(model)(torch.randn(2, 4))


@program
def deepcopy_inside(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(config: dict[str, Any], x: Tensor) -> Any:
        mine = copy.deepcopy(config)
        mine["scale"] += 1
        return x * mine["scale"]

    for _ in range(10):
        yield run({"scale": 2, "names": ["a", "b"]}, torch.randn(4))


@program
def layers_in_a_list(e: Engine) -> Iterator[Any]:
    layers = [Block() for _ in range(3)]

    @e.compile
    def run(x: Tensor) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    for n in range(10):
        layers[n % 3] = Block()
        yield run(torch.randn(2, 4))


@program
def train_and_eval(e: Engine) -> Iterator[Any]:
    model = nn.Sequential(Block(), nn.Dropout(0.0))
    compiled = e.compile(model)
    for n in range(10):
        model.train(n % 2 == 0)
        yield compiled(torch.randn(2, 4))


@program
def buffer_that_grows(e: Engine) -> Iterator[Any]:
    class Cache(nn.Module):
        keys: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 4))

        def forward(self, x: Tensor) -> Any:
            self.keys = torch.cat([self.keys, x])
            return self.keys.sum(0)

    compiled = e.compile(Cache())
    for _ in range(10):
        yield compiled(torch.randn(1, 4))


@program
def attribute_tensor_that_grows(e: Engine) -> Iterator[Any]:
    class Cache:
        keys = torch.zeros(2, 4)

    cache = Cache()
    cache.keys = torch.zeros(2, 4)

    @e.compile
    def run(c: Any, x: Tensor) -> Any:
        c.keys = torch.cat([c.keys, x])
        return c.keys.sum(0)

    for _ in range(10):
        yield run(cache, torch.randn(1, 4))


@program
def buffer_replaced_between(e: Engine) -> Iterator[Any]:
    class Table(nn.Module):
        table: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(2, 4))

        def forward(self, x: Tensor) -> Any:
            return self.table * x

    model = Table()
    compiled = e.compile(model)
    for n in range(10):
        model.table = torch.randn(n + 2, 4)
        yield compiled(torch.randn(1, 4))


@program
def tensor_attribute_of_module(e: Engine) -> Iterator[Any]:
    class Mask(nn.Module):
        mask: Any = None

        def forward(self, x: Tensor) -> Any:
            return x * self.mask

    model = Mask()
    compiled = e.compile(model)
    for n in range(10):
        model.mask = torch.ones(n + 2)
        yield compiled(torch.randn(n + 2))


@program
def parameter_resized(e: Engine) -> Iterator[Any]:
    model = nn.Linear(4, 4)
    compiled = e.compile(model)
    for n in range(6):
        model.weight = nn.Parameter(torch.randn(n + 3, 4))
        model.bias = nn.Parameter(torch.randn(n + 3))
        yield compiled(torch.randn(2, 4))
