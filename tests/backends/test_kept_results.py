"""Programs that keep what CUDA graphs gave them: it stays as it was.

In: calls in many orders, whose results and gradients are kept, dropped and changed. Out: asserted
is that they equal eager's, and that graphs are replayed.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator._native import _core

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    stator.reset()
    yield
    stator.reset()


# ---------------------------------------------------------------------- without a GPU


def test_addresses() -> None:
    tensors = [torch.ones(3), torch.ones(2), torch.empty(0)]
    places = torch.tensor([[i, t.data_ptr()] for i, t in enumerate(tensors)]).numpy().tobytes()
    assert _core.addresses_hold(tensors, places)
    assert _core.addresses_hold(tuple(tensors), places[16:])
    tensors[1] = torch.ones(2)
    assert not _core.addresses_hold(tensors, places)
    assert _core.addresses_hold(tensors, places[:16])
    with pytest.raises(IndexError):
        _core.addresses_hold([], places)
    with pytest.raises(TypeError):
        _core.addresses_hold(tensors, places[:3])
    with pytest.raises(AttributeError):
        _core.addresses_hold([3], places[:16])


# ---------------------------------------------------------------------- on a GPU

MODES: Any = [{"mode": "reduce-overhead"}, {"backend": "cudagraphs"}]


def model(*, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8)).cuda()


@cuda
@pytest.mark.parametrize("options", MODES)
def test_results_that_are_kept(options: Any) -> None:
    net = model().eval()
    run = stator.compile(net, **options)
    kept = []
    with torch.no_grad():
        for _ in range(8):
            x = torch.randn(4, 8, device="cuda")
            kept.append((run(x), net(x)))
    for actual, expected in kept:
        torch.testing.assert_close(actual, expected)


@cuda
@pytest.mark.parametrize("options", MODES)
def test_models_that_share_a_graph(options: Any) -> None:
    nets = [model(seed=seed).eval() for seed in range(5)]

    def forward(net: nn.Module, x: torch.Tensor) -> Any:
        return net(x)

    run = stator.compile(forward, **options)
    with torch.no_grad():
        for _ in range(4):
            for net in nets:
                x = torch.randn(4, 8, device="cuda")
                torch.testing.assert_close(run(net, x), net(x))


@cuda
def test_a_cache_that_is_changed(recwarn: pytest.WarningsRecorder) -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            cache: Any = self.cache
            cache.index_copy_(0, place, x)
            return cache.sum(0)  # type: ignore[no-any-return]

    net, reference = Cached().cuda(), Cached().cuda()
    run = stator.compile(net, mode="reduce-overhead")
    with torch.no_grad():
        for step in range(8):
            x, place = torch.randn(1, 8, device="cuda"), torch.tensor([step % 4], device="cuda")
            cache: Any = net.cache
            version = cache._version
            torch.testing.assert_close(run(x, place), reference(x, place))
            torch.testing.assert_close(cache, reference.cache)
            assert cache._version > version
    assert not [each for each in recwarn if "without CUDA graphs" in str(each.message)]


@cuda
def test_a_whole_step_of_training() -> None:
    net, reference = model(), model()
    optimizers = [torch.optim.AdamW(m.parameters(), capturable=True) for m in (net, reference)]

    def step(net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    run = stator.compile(step, mode="reduce-overhead")
    for _ in range(10):
        x = torch.randn(4, 8, device="cuda")
        actual = run(net, optimizers[0], x)
        torch.testing.assert_close(actual, step(reference, optimizers[1], x))
    for a, b in zip(net.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@cuda
def test_training_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and gradients that are alive in the next step don't make it record again."""
    recorded: list[Any] = []
    begin = torch.cuda.CUDAGraph.capture_begin

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorded.append(self)
        return begin(self, *args, **kwargs)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", noting)
    net, reference = model(), model()
    run = stator.compile(net, mode="reduce-overhead")
    losses: list[tuple[torch.Tensor, torch.Tensor]] = []
    for step in range(12):
        x = torch.randn(4, 8, device="cuda")
        pair = run(x).square().mean(), reference(x).square().mean()
        if step % 3 == 0:
            net.zero_grad()
            reference.zero_grad()
        for loss in pair:
            loss.backward()
        losses.append((pair[0].detach(), pair[1].detach()))
        for a, b in zip(net.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
        if step == 5:
            known = len(recorded)
    for actual, expected in losses:
        torch.testing.assert_close(actual, expected)
    assert len(recorded) == known


@cuda
@pytest.mark.parametrize("seed", range(40))
def test_sequences_of_calls(seed: int) -> None:
    """Kept and dropped results, changes in place, other sizes, backwards, streams: as in eager."""
    chance = random.Random(seed)
    net = model(seed=seed)
    reference = copy.deepcopy(net)
    options = chance.choice(MODES)
    run = stator.compile(net, dynamic=False, **options)
    new: Any = torch.cuda.Stream
    streams = [torch.cuda.current_stream(), new()]
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    torch.manual_seed(seed)
    for _ in range(40):
        x = torch.randn(chance.choice([2, 2, 2, 4]), 8, device="cuda")
        stream = chance.choice(streams) if chance.random() < 0.2 else streams[0]
        torch.cuda.synchronize()
        if chance.random() < 0.5:
            with torch.no_grad(), torch.cuda.stream(stream):
                actual, expected = run(x), reference(x)
        else:
            actual, expected = run(x), reference(x)
            for result in (actual, expected):
                result.square().sum().backward()
            actual, expected = actual.detach(), expected.detach()
            accumulates = chance.random() < 0.3
            for pair in zip(net.parameters(), reference.parameters(), strict=True):
                grads = [parameter.grad for parameter in pair]
                torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
                if accumulates:
                    continue
                for parameter, grad in zip(pair, grads, strict=True):
                    assert grad is not None
                    with torch.no_grad():
                        parameter.sub_(grad, alpha=0.01)
                    parameter.grad = None
        torch.cuda.synchronize()
        torch.testing.assert_close(actual, expected)
        if chance.random() < 0.1:
            with torch.no_grad():
                x.add_(1)
                if chance.random() < 0.5:
                    actual.add_(1)
                    expected.add_(1)
        if chance.random() < 0.5:
            kept.append((actual, expected))
        elif kept and chance.random() < 0.5:
            kept.pop(chance.randrange(len(kept)))
        for a, b in kept:
            torch.testing.assert_close(a, b)
