"""The backend `cudagraphs`: what is recorded on a GPU, and what runs as it is elsewhere."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import stator
from stator.backends.cudagraphs import device_of

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    stator.reset()
    yield
    stator.reset()


def noting(original: Callable[..., Any], name: str, seen: list[str]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return original(*args, **kwargs)

    return noted


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to CUDA graphs: each recording and each replay."""
    seen: list[str] = []
    for name in ("capture_begin", "replay"):
        original = getattr(torch.cuda.CUDAGraph, name)
        monkeypatch.setattr(torch.cuda.CUDAGraph, name, noting(original, name, seen))
    return seen


def compiled(function: Any, **options: Any) -> Any:
    return stator.compile(function, backend="cudagraphs", fullgraph=True, **options)


@contextmanager
def silent() -> Iterator[None]:
    """Everything is recorded: nothing has to be told."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "a graph runs without CUDA graphs")
        yield


def on_gpu(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", requires_grad=grad)


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


# ---------------------------------------------------------------------- without a GPU


def test_on_the_cpu() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    reference = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="without CUDA graphs: tensors are on cpu"):
        run = compiled(model)
        for _ in range(3):
            x = torch.randn(2, 4)
            loss, wanted = run(x).sum(), reference(x).sum()
            same(loss, wanted)
            loss.backward()
            wanted.backward()
    for actual, expected in zip(model.parameters(), reference.parameters(), strict=True):
        same(actual.grad, expected.grad)


@torch.library.custom_op("stator_tests::told", mutates_args=())
def told(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@told.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def device_or_reason(function: Callable[..., Any], *args: Any) -> Any:
    """Of a graph of operators on a GPU, which need not be there."""
    with FakeTensorMode():
        fakes = [torch.empty(each, device="cuda") for each in args]
        return device_of(make_fx(function)(*fakes))


def test_what_is_recorded() -> None:
    assert device_or_reason(lambda x: x.sin() + 1, (3,)) == torch.device("cuda:0")
    for function, reason in (
        (lambda x: x.cpu() + 1, "tensors are on cpu"),
        (lambda x: x.add_(1), "aten.add_.Tensor has an effect"),
        (lambda x: torch._assert_async(x.sum()), "aten._assert_async.default has an effect"),
        (told, "stator_tests.told.default is not an operator of torch's"),
        (lambda x: torch.view_as_complex(x.view(-1, 2)).conj(), "is no plain tensor"),
    ):
        assert reason in device_or_reason(function, (4,))


def test_numbers_are_no_tensors() -> None:
    graph = torch.fx.Graph()
    graph.placeholder("n").meta["val"] = 3
    graph.output(())
    assert device_of(torch.fx.GraphModule({}, graph)) == "the input n is no tensor"


def test_listed() -> None:
    assert "cudagraphs" in stator.list_backends()


# ---------------------------------------------------------------------- inference


@cuda
def test_other_values_in_each_call(replays: list[str]) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).cuda().eval()
    run = compiled(model)
    kept = []
    with silent(), torch.no_grad():
        for _ in range(6):
            x = on_gpu(4, 8)
            kept.append((run(x), model(x)))
            for parameter in model.parameters():  # in place: they stay where they are
                parameter.add_(0.1)
    for actual, expected in kept:  # those of earlier calls are still what they were
        same(actual, expected)
    assert replays.count("replay") == 5
    assert replays.count("capture_begin") <= 2


@cuda
def test_parameters_that_move(replays: list[str]) -> None:
    model = nn.Linear(8, 8).cuda().eval()
    run = compiled(model)
    with silent(), torch.no_grad():
        for step in range(8):
            x = on_gpu(4, 8)
            same(run(x), model(x))
            if step % 2:
                model.weight.data = on_gpu(8, 8)
    assert replays.count("replay") == 7
    assert replays.count("capture_begin") <= 4


@cuda
def test_results_and_memory(replays: list[str]) -> None:
    """Results share memory with inputs and each other as in eager."""

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = x + y
        return z, z.view(-1)[2:5], x, y.t(), z.sum().expand(3), z, y.t() + 1

    run = compiled(program)
    with silent(), torch.no_grad():
        for _ in range(4):
            x, y = on_gpu(3, 4), on_gpu(6, 4)[::2]
            actual, expected = run(x, y), program(x, y)
            for a, b in zip(actual, expected, strict=True):
                same(a, b)
                assert a.stride() == b.stride()
            assert actual[2] is x
            assert actual[0] is actual[5]
            actual[0].fill_(7)
            assert actual[1].tolist() == [7, 7, 7]
            actual[3].fill_(8)
            assert y.tolist() == [[8] * 4] * 3
    assert replays.count("replay") == 3


@cuda
def test_inputs_that_are_changed(replays: list[str]) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + y

    run = compiled(program)
    x = on_gpu(3)
    expected = x.clone()
    with silent(), torch.no_grad():
        for _ in range(4):
            y = on_gpu(3)
            same(run(x, y), program(expected, y))
            same(x, expected)
    assert replays.count("replay") == 3


@cuda
@pytest.mark.parametrize("inference", [True, False])
def test_modes(inference: bool, replays: list[str]) -> None:
    run = compiled(lambda x: x.sin() * 2)
    with silent(), torch.inference_mode(inference):
        for _ in range(4):
            x = on_gpu(5)
            found = run(x)
            same(found, x.sin() * 2)
            assert found.is_inference() is inference
    assert replays.count("replay") == 3


@cuda
def test_streams(replays: list[str]) -> None:
    run = compiled(lambda x: (x @ x).sin())
    new: Any = torch.cuda.Stream
    streams = [new(), new()]
    with silent(), torch.no_grad():
        inputs = [on_gpu(256, 256) for _ in range(8)]
        torch.cuda.synchronize()
        found = []
        for index, x in enumerate(inputs):
            with torch.cuda.stream(streams[index % 2]):
                found.append(run(x))
        torch.cuda.synchronize()
        for x, actual in zip(inputs, found, strict=True):
            same(actual, (x @ x).sin())
    assert replays.count("replay") == 7


# ---------------------------------------------------------------------- training


@cuda
def test_training(replays: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 4)).cuda()
    reference = copy.deepcopy(model)
    run = compiled(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference)]
    with silent():
        for _ in range(6):
            x = on_gpu(10, 8)
            for forward, optimizer in zip((run, reference), optimizers, strict=True):
                optimizer.zero_grad()
                forward(x).square().sum().backward()
                optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, reference.state_dict()[name])
    assert replays.count("replay") == 10


@cuda
def test_two_forwards_before_a_backward(replays: list[str]) -> None:
    """What the first keeps for its backward is not overwritten by the second."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp()

    run = compiled(program)
    with silent():
        for _ in range(4):
            a, b = on_gpu(5, grad=True), on_gpu(5, grad=True)
            both: Any = run(a).sum() + 2 * run(b).sum()
            both.backward()
            for each, factor in ((a, 1), (b, 2)):
                x = each.detach().clone().requires_grad_()
                alone: Any = factor * program(x).sum()
                alone.backward()
                same(each.grad, x.grad)
    assert replays.count("replay") >= 10


@cuda
def test_random_numbers(replays: list[str]) -> None:
    run = compiled(lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x))

    def drawn(function: Any) -> list[torch.Tensor]:
        torch.manual_seed(3)
        return [function(torch.ones(100, device="cuda")) for _ in range(5)]

    with silent(), torch.no_grad():
        expected = drawn(lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x))
        for _ in range(2):
            same(drawn(run), expected)
    assert replays.count("replay") == 9


# ---------------------------------------------------------------------- what is not recorded


@cuda
@pytest.mark.parametrize(
    ("program", "why"),
    [
        (lambda x: x.cpu() + 1, "tensors are on cpu"),
        (lambda x: x[x > 0] * 2, "depend on the values"),
    ],
)
def test_runs_as_it_is(program: Any, why: str, replays: list[str]) -> None:
    run = compiled(program)
    with pytest.warns(UserWarning, match=f"without CUDA graphs: .*{why}"), torch.no_grad():
        for _ in range(3):
            x = on_gpu(6)
            same(run(x), program(x))
    assert not replays


@cuda
def test_sizes_that_are_left_open(replays: list[str]) -> None:
    run = compiled(lambda x: x * 2, dynamic=True)
    with pytest.warns(UserWarning, match="sizes or numbers are left open"), torch.no_grad():
        for size in (3, 4, 5):
            x = on_gpu(size)
            same(run(x), x * 2)
    assert not replays


@cuda
def test_a_recording_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not today")

    run = compiled(lambda x: x * 2)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", refused)
    stream = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="recording it failed: not today"), torch.no_grad():
        for _ in range(3):
            x = on_gpu(4)
            same(run(x), x * 2)
    assert torch.cuda.current_stream() == stream


@cuda
def test_inside_of_a_recording() -> None:
    """The program makes a CUDA graph of its own: what is compiled becomes a part of it."""
    run = compiled(lambda x: x * 2)
    x = on_gpu(4)
    with torch.no_grad():
        run(x)
        run(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = run(x)
        x.fill_(3)
        graph.replay()
        assert found.tolist() == [6] * 4
