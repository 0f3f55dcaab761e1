"""Layers of torch.nn, recorded by a small tracer that follows the leaf rules."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode

from stator.backends.compile import compile_graph
from stator.graph import OutputGraph, Recorded
from stator.graph.leaves.leaves import Kind, answer, attribute, classify, target_of
from stator.graph.recording.state import State, preserved


class Follow(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Carries out each torch call of real Python code as its rule says."""

    def __init__(self, graph: OutputGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.graph = graph

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ == "__get__":
            return self.attribute(func, args[0])
        rule = classify(func)
        assert rule is not None, func
        if rule.kind in {Kind.RECORD, Kind.EVALUATE}:
            # A mode can't look into a function that it was told of: F.pad stays a leaf here.
            target, first = target_of(func)
            return self.graph.call(target, (*first, *args), kwargs)
        assert rule.kind is Kind.CONSTANT, (func, rule)
        return answer(func, args, kwargs)

    def attribute(self, getter: Any, tensor: Any) -> Any:
        name = getter.__self__.__name__
        rule = attribute(name)
        assert rule is not None, name
        if rule.kind is Kind.RECORD:
            return self.graph.call(getattr, (tensor, name))
        assert rule.kind is Kind.CONSTANT, name
        return getter(tensor)


def record(module: nn.Module, *inputs: torch.Tensor) -> Recorded:
    before = State.capture()
    graph = OutputGraph()
    with preserved():
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        fakes = {name: graph.add_input(name, tensor) for name, tensor in tensors.items()}
        args = [graph.add_input(f"x{i}", value) for i, value in enumerate(inputs)]
        with _reparametrize_module(module, fakes), Follow(graph):
            result = module(*args)
        recorded = graph.finish(list(result) if isinstance(result, tuple) else [result])
    assert State.capture() == before
    return recorded


class Cnn(nn.Sequential):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        )


Make = Callable[[], nn.Module]
LAYERS: list[tuple[str, Make, tuple[int, ...], int]] = [
    ("linear", lambda: nn.Linear(3, 2), (4, 3), 1),
    ("mlp", lambda: nn.Sequential(nn.Linear(3, 2), nn.GELU(), nn.Linear(2, 3)), (4, 3), 3),
    ("cnn", Cnn, (2, 3, 8, 8), 7),
    ("layer_norm", lambda: nn.LayerNorm(3), (4, 3), 1),
    ("group_norm", lambda: nn.GroupNorm(1, 3), (4, 3), 1),
    ("instance_norm", lambda: nn.InstanceNorm1d(3), (2, 3, 5), 1),
    ("rms_norm", lambda: nn.RMSNorm(3), (4, 3), 1),
    ("attention", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8), 13),
    ("pad", lambda: nn.ZeroPad2d(1), (1, 1, 2, 2), 1),
    ("upsample", lambda: nn.Upsample(scale_factor=2), (1, 1, 2, 2), 1),
    ("softmax", lambda: nn.Softmax(-1), (2, 3), 1),
    ("pixel_shuffle", lambda: nn.PixelShuffle(2), (1, 4, 2, 2), 1),
    ("conv_transpose", lambda: nn.ConvTranspose2d(2, 3, 2), (1, 2, 3, 3), 1),
    ("dropout", lambda: nn.Dropout(0.5), (4,), 1),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("make", "size", "nodes"), [layer[1:] for layer in LAYERS], ids=[layer[0] for layer in LAYERS]
)
def test_layer(make: Make, size: tuple[int, ...], nodes: int, training: bool, backend: str) -> None:
    torch.manual_seed(0)
    module = make().train(training)
    twin = make().train(training)
    twin.load_state_dict(module.state_dict())
    recorded = record(module, torch.randn(size))
    calls = [n for n in recorded.module.graph.nodes if n.op in {"call_function", "call_method"}]
    counting = any(isinstance(m, nn.BatchNorm2d) for m in module.modules()) and training
    taken = sum(n.name.startswith("getitem") for n in calls)
    assert len(calls) - taken == nodes + counting, recorded.module.graph
    compiled = compile_graph(
        recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
    )
    x = torch.randn(size)
    named = {**dict(module.named_parameters()), **dict(module.named_buffers()), "x0": x}
    values = {key.replace(".", "_"): value for key, value in named.items()}
    values = {key if key[0].isalpha() else f"_{key}": value for key, value in values.items()}
    torch.manual_seed(1)
    expected = twin(x)
    torch.manual_seed(1)
    (actual,) = compiled.function(*(values[given.name] for given in recorded.inputs))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert actual.stride() == expected.stride()
    for mine, theirs in zip(module.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    if expected.requires_grad:
        torch.autograd.backward(actual.sum())
        torch.autograd.backward(expected.sum())
        for p, q in zip(module.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
