"""Optimizers, schedulers, decoding, data loaders."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.compile_counts.program import Engine, program


def model_of(width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))


def trained(e: Engine, make: Any, steps: int = 8) -> Iterator[Any]:
    model = model_of()
    optimizer = make(model.parameters())
    step = e.compile(optimizer.step)
    for _ in range(steps):
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        step()
        optimizer.zero_grad()
        yield loss


@program
def sgd_step(e: Engine) -> Iterator[Any]:
    yield from trained(e, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))


@program
def adam_step(e: Engine) -> Iterator[Any]:
    """torch's results are not eager's: it makes the optimizer's state before it traces.

    Its first step computes what later steps do, with other roundings. Here the step that makes the
    state is a graph of its own, which Inductor does not compile (`driver/first_steps.py`).
    """
    yield from trained(e, lambda p: torch.optim.Adam(p, lr=0.1))


@program
def adamw_step(e: Engine) -> Iterator[Any]:
    """torch's results are not eager's: it makes the optimizer's state before it traces.

    Its first step computes what later steps do, with other roundings. Here the step that makes the
    state is a graph of its own, which Inductor does not compile (`driver/first_steps.py`).
    """
    yield from trained(e, lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True))


@program
def scheduler_between_steps(e: Engine) -> Iterator[Any]:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = e.compile(optimizer.step)
    for _ in range(8):
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        step()
        optimizer.zero_grad()
        scheduler.step()
        yield loss


@program
def tensor_learning_rate(e: Engine) -> Iterator[Any]:
    """torch's results are not eager's: it makes the optimizer's state before it traces.

    Its first step computes what later steps do, with other roundings. Here the step that makes the
    state is a graph of its own, which Inductor does not compile (`driver/first_steps.py`).
    """
    yield from trained(e, lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), capturable=False))


@program
def whole_step(e: Engine) -> Iterator[Any]:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @e.compile
    def step(x: Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(8):
        yield step(torch.randn(3, 4)).detach()


@program
def accumulated_gradients(e: Engine) -> Iterator[Any]:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = e.compile(model)
    for n in range(12):
        loss = compiled(torch.randn(3, 4)).square().mean() / 4
        loss.backward()
        if n % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        yield loss


@program
def moving_average(e: Engine) -> Iterator[Any]:
    model = model_of()
    average = copy.deepcopy(model)

    @e.compile
    def update(decay: float) -> None:
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 1 - decay)

    for n in range(10):
        update(min(0.99, (1 + n) / (10 + n)))
        yield [p.sum() for p in average.parameters()]


@program
def data_loader(e: Engine) -> Iterator[Any]:
    compiled = e.compile(model_of())
    data = DataLoader(TensorDataset(torch.randn(22, 4)), batch_size=5)
    for _ in range(3):
        for (batch,) in data:
            yield compiled(batch)


@program
def batch_sizes(e: Engine) -> Iterator[Any]:
    compiled = e.compile(model_of())
    for n in (4, 8, 3, 16, 5, 4, 8, 2, 9):
        yield compiled(torch.randn(n, 4))


@program
def batch_and_length(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mask: Tensor) -> Any:
        scores = x @ x.transpose(1, 2)
        scores = scores.masked_fill(~mask[:, None], -1e9)
        return scores.softmax(-1) @ x

    for b, n in ((2, 5), (3, 5), (2, 7), (4, 9), (5, 11)):
        yield run(torch.randn(b, n, 4), torch.ones(b, n, dtype=torch.bool))


@program
def causal_masks(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor) -> Any:
        n = x.shape[0]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return (x @ x.T).masked_fill(~mask, 0.0)

    for n in range(3, 12):
        yield run(torch.randn(n, 4))


@program
def list_cache(e: Engine) -> Iterator[Any]:
    @e.compile
    def decode(x: Tensor, cache: list[Tensor]) -> Any:
        cache[0] = torch.cat([cache[0], x])
        return (x @ cache[0].T).softmax(-1) @ cache[0]

    cache = [torch.randn(3, 4)]
    for _ in range(10):
        yield decode(torch.randn(1, 4), cache)


@program
def tuple_cache(e: Engine) -> Iterator[Any]:
    @e.compile
    def decode(x: Tensor, past: Any = None) -> tuple[Tensor, Any]:
        keys = x if past is None else torch.cat([past[0], x])
        return (x @ keys.T).softmax(-1) @ keys, (keys,)

    past = None
    for _ in range(10):
        out, past = decode(torch.randn(1, 4), past)
        yield out


@program
def cache_object(e: Engine) -> Iterator[Any]:
    class Cache:
        def __init__(self) -> None:
            self.keys: list[Tensor] = []
            self.length = 0

        def update(self, layer: int, x: Tensor) -> Any:
            if layer == len(self.keys):
                self.keys.append(x)
            else:
                self.keys[layer] = torch.cat([self.keys[layer], x])
            if layer == 0:
                self.length += x.shape[0]
            return self.keys[layer]

    @e.compile
    def decode(x: Tensor, cache: Cache) -> Any:
        for layer in range(2):
            keys = cache.update(layer, x)
            x = (x @ keys.T).softmax(-1) @ keys
        return x

    cache = Cache()
    yield decode(torch.randn(5, 4), cache)
    for _ in range(10):
        yield decode(torch.randn(1, 4), cache), cache.length


@program
def static_cache(e: Engine) -> Iterator[Any]:
    cache = torch.zeros(16, 4)

    @e.compile
    def decode(x: Tensor, position: int) -> Any:
        cache[position] = x
        return cache[: position + 1].sum(0)

    for n in range(12):
        yield decode(torch.randn(4), n)


@program
def whole_decoding(e: Engine) -> Iterator[Any]:
    table = torch.randn(7, 4)

    @e.compile
    def generate(token: Tensor, count: int) -> Any:
        tokens = [token]
        for _ in range(count):
            scores = table[tokens[-1]] @ table.T
            tokens.append(scores.argmax())
            if tokens[-1] == 0:
                break
        return torch.stack(tokens)

    for n in range(6):
        yield generate(torch.tensor(n + 1), 5)


@program
def clipped_gradients(e: Engine) -> Iterator[Any]:
    model = model_of()

    @e.compile
    def clip(limit: float) -> Any:
        return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)

    for _ in range(8):
        model.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        yield clip(1.0)


@program
def loss_logged(e: Engine) -> Iterator[Any]:
    model = model_of()
    log: list[Any] = []

    @e.compile
    def step(x: Tensor, n: int) -> Any:
        loss = model(x).square().mean()
        if n % 5 == 0:
            log.append(loss.item())
        return loss

    for n in range(15):
        yield step(torch.randn(3, 4), n), len(log)


@program
def frozen_and_thawed(e: Engine) -> Iterator[Any]:
    model = model_of()
    compiled = e.compile(model)
    for n in range(8):
        model.requires_grad_(n % 2 == 0)
        yield compiled(torch.randn(3, 4)).detach()


@program
def dropout_rate_changes(e: Engine) -> Iterator[Any]:
    drop = nn.Dropout(0.1)
    model = nn.Sequential(nn.Linear(4, 4), drop)
    compiled = e.compile(model)
    model.eval()
    for n in range(8):
        drop.p = n / 20
        yield compiled(torch.randn(3, 4))


@program
def loss_scale(e: Engine) -> Iterator[Any]:
    class Scaler:
        scale = 2.0

        def __call__(self, loss: Tensor) -> Any:
            return loss * self.scale

    scaler = Scaler()

    @e.compile
    def step(x: Tensor) -> Any:
        return scaler(x.square().mean())

    for n in range(8):
        scaler.scale = 2.0**n
        yield step(torch.randn(4))


@program
def seeds(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, seed: int) -> Any:
        torch.manual_seed(seed)
        return x + torch.rand(4)

    for n in range(5):
        yield run(torch.randn(4), n)


@program
def batch_norm_counts(e: Engine) -> Iterator[Any]:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = e.compile(model)
    for n in range(8):
        yield compiled(torch.randn(3 + n % 2, 4)).detach()
