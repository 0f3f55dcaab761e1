# mypy: ignore-errors
"""What AOTAutograd would get wrong: dropout of recurrent layers, open floats; and sparse texts."""

import contextlib
import io
import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified

import stator
from stator.backends.recurrent import as_operators, layered


@pytest.fixture(autouse=True)
def fresh() -> None:
    stator.reset()


# ------------------------------------------------------------------ recurrent layers


def trained(function: Any, model: nn.Module, grad: bool) -> list[Tensor]:
    """Results and gradients of one step, and the next random number."""
    torch.manual_seed(0)
    model.zero_grad()
    x = torch.randn(2, 2, 3, requires_grad=grad)
    output, state = function(x)
    states = state if isinstance(state, tuple) else (state,)
    (output.sum() + sum(each.sum() for each in states)).backward()
    grads = [each.grad for each in model.parameters()]
    return [output, *states, *grads, torch.rand(1)] + ([x.grad] if grad else [])


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4),
        lambda: nn.LSTM(3, 4, 2, dropout=0.5, bidirectional=True, batch_first=True),
        lambda: nn.GRU(3, 4, 2, dropout=0.5),
        lambda: nn.RNN(3, 4, 3, dropout=0.5, bias=False),
    ],
)
def test_recurrent_layers_are_trained(make: Any, grad: bool, caplog: Any) -> None:
    torch.manual_seed(2)
    model = make()
    compiled = stator.compile(model, backend="aot_eager", fullgraph=True)
    with caplog.at_level(logging.WARNING, logger="stator"):
        found = trained(compiled, model, grad)
    assert not [each for each in caplog.records if each.name == "stator"]  # no graph has raised
    torch.testing.assert_close(found, trained(model, model, grad), atol=1e-5, rtol=1e-4)


def test_the_next_draw_does_not_depend_on_grad_mode() -> None:
    model = nn.GRU(3, 4, 2, dropout=0.5)
    compiled = stator.compile(model, backend="aot_eager")
    x = torch.randn(2, 2, 3)
    results = []
    for each in (model, compiled):
        torch.manual_seed(3)
        with torch.no_grad():
            results.append((each(x)[0], torch.rand(1)))
    torch.testing.assert_close(*results)


def test_layers_of_packed_sequences() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 2, 3), torch.tensor([4, 2]))
    model = nn.LSTM(3, 4, 2, bidirectional=True)
    states = (torch.randn(4, 2, 4), torch.randn(4, 2, 4))
    weights = model._flat_weights
    rest = (True, 2, 0.5, True, True)
    results = []
    for function in (torch.lstm, lambda *args: layered("lstm", *args)):
        torch.manual_seed(4)
        results.append(function(packed.data, packed.batch_sizes, states, weights, *rest))
    torch.testing.assert_close(*results)


@pytest.mark.filterwarnings("error:a graph runs uncompiled")
def test_a_long_sequence_is_not_unrolled() -> None:
    model = nn.LSTM(2, 2)
    graphs: list[Any] = []

    def noted(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return make_boxed_func(module.forward)

    def backend(module: Any, inputs: Any) -> Any:
        as_operators(module)
        return aot_module_simplified(module, inputs, fw_compiler=noted, bw_compiler=noted)

    compiled = stator.compile(model, backend=backend)
    x = torch.randn(200, 1, 2)
    output, _ = compiled(x)
    torch.testing.assert_close(output, model(x)[0])
    assert output.requires_grad
    output.sum().backward()
    assert [len(each.graph.nodes) < 40 for each in graphs] == [True, True]


# ------------------------------------------------------------------ open floats


def test_open_floats_and_constants() -> None:
    def program(p: Tensor, rate: float) -> tuple[Any, ...]:
        step = torch.tensor(0.0)
        view = step.view(1)
        step += 1
        size = rate / (1 - 0.9**step)
        p.addcdiv_(p, p + 1, value=-size)
        step.mul_(rate)
        return p, size.item(), view, view.item()

    for backend in ("eager", "aot_eager"):
        compiled = stator.compile(program, backend=backend)
        for rate in (0.1, 0.2, 0.3):
            expected, found = program(torch.ones(2), rate), compiled(torch.ones(2), rate)
            assert expected[1::2] == found[1::2]
            torch.testing.assert_close(expected[::2], found[::2])


def test_an_optimizer_whose_rate_is_open() -> None:
    weights = []
    for backend in (None, "aot_eager"):
        weight = nn.Parameter(torch.ones(2))
        for make, rate in (
            (torch.optim.SGD, 0.1),
            (torch.optim.SGD, 0.2),
            (torch.optim.AdamW, 0.1),
        ):
            optimizer = make([weight], lr=rate)

            def step(optimizer: Any = optimizer) -> None:
                optimizer.step()

            run = step if backend is None else stator.compile(step, backend=backend, dynamic=True)
            weight.grad = torch.ones(2)
            run()
        weights.append(weight.detach())
    torch.testing.assert_close(*weights)


# ------------------------------------------------------------------ sparse tensors


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_the_text_of_a_sparse_tensor(backend: str) -> None:
    def program(x: Tensor) -> tuple[str, Tensor]:
        sparse = (x * 2).to_sparse()
        print(sparse)
        return f"{sparse} {[sparse]}", sparse.coalesce().values() + 1

    seen = []
    for function in (program, stator.compile(program, backend=backend)):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            text, values = function(torch.eye(2))
        seen.append((text, values.tolist(), shown.getvalue()))
    assert seen[0] == seen[1]
    with pytest.raises(stator.CaptureError, match="the text of a sparse tensor"):
        stator.compile(program, backend=backend, fullgraph=True)(torch.eye(2))
