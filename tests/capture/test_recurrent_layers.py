# mypy: ignore-errors
"""Recurrent layers, in all their kinds and options: one operator, right for any length.

Each layer is called by a small model, eager and compiled, on several lengths and numbers of
sequences, with the same random numbers: results, how they lie in memory, gradients, the next draw.
"""

import contextlib
import copy
import itertools
import os
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import stator

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
EVERY = os.environ.get("STATOR_OPERATORS") == "all"  # each in training and not, in each backend
BACKENDS = ("eager", "aot_eager")
OPTIONS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 2, "dropout": 0.5, "batch_first": True},
    {"num_layers": 3, "dropout": 0.3, "bidirectional": True, "bias": False, "batch_first": True},
    {"dtype": torch.float64, "batch_first": True},
]
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}
LAYERS = [(kind, options) for kind in KINDS for options in OPTIONS] + [
    ("lstm", {"proj_size": 2}),
    ("lstm", {"proj_size": 2, "num_layers": 2, "bidirectional": True, "batch_first": True}),
]
FORMS = ("dense", "with states", "one sequence", "packed", "packed with states")


@pytest.fixture(autouse=True)
def fresh() -> None:
    stator.reset()


@dataclass
class Counted:
    """A backend that notes the operators of the graphs it is given."""

    backend: str
    graphs: list[list[str]] = field(default_factory=list)

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.graphs.append([n.name for n in module.graph.nodes if n.op.startswith("call")])
        from stator.backends.registry import lookup

        return lookup(self.backend)(module, inputs)


class Model(nn.Module):
    """Something before the layer and behind it, so that its results are used and changed."""

    def __init__(self, kind: str, options: dict[str, Any], form: str) -> None:
        super().__init__()
        dtype = options.get("dtype", torch.float32)
        more = {"nonlinearity": kind} if kind in ("tanh", "relu") else {}
        self.scale = nn.Parameter(torch.ones(3, dtype=dtype))
        self.layer = KINDS[kind](3, 4, **options, **more)
        self.form = form

    def forward(self, x: Tensor, lengths: Tensor, states: Any) -> Any:
        x = x * self.scale
        first = self.layer.batch_first
        if self.form == "one sequence":
            x = x[0] if first else x[:, 0]
        given = (states,) if "states" in self.form else ()
        if "packed" in self.form:
            x = pack_padded_sequence(x, lengths, first, enforce_sorted=False)
            output, last = self.layer(x, *given)
            output, _ = pad_packed_sequence(output, first)
        else:
            output, last = self.layer(x, *given)
        return output * 2, last


def given(model: Model, length: int, batch: int) -> tuple[Any, ...]:
    layer, dtype = model.layer, model.scale.dtype
    shape = (batch, length, 3) if layer.batch_first else (length, batch, 3)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    lengths = torch.tensor([length - n % length for n in range(batch)])
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    width = layer.proj_size or 4
    states = torch.randn(count, batch, width, dtype=dtype, requires_grad=True)
    if isinstance(layer, nn.LSTM):
        states = (states, torch.randn(count, batch, 4, dtype=dtype, requires_grad=True))
    return x, lengths, states


def tensors(value: Any) -> list[Tensor]:
    return [each for item in value for each in tensors(item)] if type(value) is tuple else [value]


def step(function: Any, model: Model, seed: int, length: int, batch: int) -> list[Any]:
    """Results of one call, gradients, how results lie in memory, the next random number."""
    torch.manual_seed(seed)
    args = given(model, length, batch)
    model.zero_grad()
    results = tensors(function(*args))
    found: list[Any] = [each.detach().clone() for each in results]
    if results[0].requires_grad:
        sum((each * each).sum() for each in results).backward()
        leaves = [args[0], *tensors(args[2])] if "states" in model.form else [args[0]]
        found += [each.grad for each in (*leaves, *model.parameters())]
    found += [torch.tensor(each.stride()) for each in results]
    return [*found, torch.rand(2)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "options"), LAYERS, ids=[f"{k}-{'-'.join(o) or 'plain'}" for k, o in LAYERS]
)
def test_every_kind(kind: str, options: dict[str, Any], form: str) -> None:
    torch.manual_seed(1)
    modes = list(itertools.product((True, False), BACKENDS))
    if not EVERY:
        turn = LAYERS.index((kind, options)) + FORMS.index(form)
        modes = [modes[turn % 3]]
    for training, backend in modes:
        stator.reset()
        model = Model(kind, options, form).train(training)
        counted = Counted(backend)
        compiled = stator.compile(model, backend=counted)
        for number, (length, batch) in enumerate([(9, 3), (12, 3), (17, 3)]):
            expected = step(model, model, number, length, batch)
            found = step(compiled, model, number, length, batch)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        names = [
            [each for each in graph if each.split("_")[0] in ("lstm", "gru", "rnn")]
            for graph in counted.graphs
        ]
        assert names and all(len(each) <= 1 for each in names)
        if "packed" not in form:  # where a length is read, to pad to it
            assert len(counted.graphs) == 2, counted.graphs  # the second leaves the length open


@pytest.mark.parametrize("form", ["dense", "packed"])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_open_sizes_from_the_start(kind: str, form: str) -> None:
    model = Model(kind, {"num_layers": 2, "batch_first": True}, form)
    counted = Counted("aot_eager")
    compiled = stator.compile(model, backend=counted, dynamic=True)
    for number, (length, batch) in enumerate([(9, 3), (7, 4), (11, 2), (5, 6)]):
        expected = step(model, model, number, length, batch)
        found = step(compiled, model, number, length, batch)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert form == "packed" or len(counted.graphs) == 1


@pytest.mark.parametrize(
    ("kind", "options", "form"),
    [
        ("lstm", {"num_layers": 2, "batch_first": True}, "dense"),
        ("gru", {"bidirectional": True}, "with states"),
        ("lstm", {}, "packed"),
    ],
)
def test_inductor(kind: str, options: dict[str, Any], form: str) -> None:
    """It uses memory again as soon as nothing in its own graph needs it."""
    model = Model(kind, options, form)
    compiled = stator.config.patch(torch_kernels=False)(stator.compile(model))
    for number, length in enumerate((9, 9, 12)):
        expected = step(model, model, number, length, 3)
        found = step(compiled, model, number, length, 3)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("length", "batch"), [(1, 1), (1, 4), (6, 1), (2, 2)])
def test_few_steps(length: int, batch: int, backend: str) -> None:
    for kind, options in (("lstm", OPTIONS[2]), ("gru", OPTIONS[0]), ("tanh", OPTIONS[1])):
        model = Model(kind, options, "with states")
        compiled = stator.compile(model, backend=backend, fullgraph=True)
        expected = step(model, model, 3, length, batch)
        found = step(compiled, model, 3, length, batch)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


# ------------------------------------------------------------------ how gradients are asked for


def lstm(**options: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.LSTM(3, 4, 2, **options)
    return model, stator.compile(model, backend="aot_eager", fullgraph=True)


def test_a_backward_that_runs_twice() -> None:
    model, compiled = lstm()
    x = torch.randn(9, 2, 3)
    grads = []
    for each in (model, compiled):
        model.zero_grad()
        loss = each(x)[0].sum()
        loss.backward(retain_graph=True)
        loss.backward()
        grads.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*grads)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_some_gradients_only() -> None:
    model, compiled = lstm()
    for name, each in model.named_parameters():
        each.requires_grad_("l1" in name and "bias" not in name)
    x = torch.randn(9, 2, 3)
    grads = []
    for each in (model, compiled):
        model.zero_grad()
        each(x)[1][1].sum().backward()  # of the last cells alone
        grads.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*grads)


def test_two_calls_before_their_backwards() -> None:
    model, compiled = lstm()
    one, other = torch.randn(9, 2, 3), torch.randn(9, 2, 3)
    grads = []
    for each in (model, compiled):
        model.zero_grad()
        losses = [each(one)[0].sum(), each(other)[0].pow(2).sum()]
        for loss in losses:
            loss.backward()
        grads.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*grads)


def test_parameters_that_change_before_the_backward() -> None:
    model, compiled = lstm()
    for each in (model, compiled):
        loss = each(torch.randn(9, 2, 3))[0].sum()
        with torch.no_grad():
            model.weight_hh_l0.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_saved_tensors_that_are_moved(dropout: float) -> None:
    model, compiled = lstm(dropout=dropout)
    x = torch.randn(9, 2, 3)
    grads = []
    for each in (model, compiled):
        model.zero_grad()
        torch.manual_seed(3)
        with torch.autograd.graph.save_on_cpu():
            loss = each(x)[0].sum()
        drawn = torch.rand(1)
        loss.backward()
        grads.append([*(p.grad for p in model.parameters()), drawn, torch.rand(1)])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("inside", [False, True])
def test_checkpoints(inside: bool) -> None:
    model = nn.GRU(3, 4, 2)

    def program(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)[0].sin()

    plain = stator.compile(model, backend="aot_eager")
    x = torch.randn(9, 2, 3)
    grads = []
    for compiled in (False, True):
        model.zero_grad()
        if not compiled:
            result = program(x)
        elif inside:
            result = stator.compile(program, backend="aot_eager")(x)
        else:
            result = torch.utils.checkpoint.checkpoint(plain, x, use_reentrant=False)[0].sin()
        result.sum().backward()
        grads.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*grads)


def test_nothing_is_kept_without_a_backward() -> None:
    import gc
    import weakref

    from stator.backends import recurrent_operator

    made = []
    original = recurrent_operator._Graph.__init__

    def noted(self: Any, *args: Any) -> None:
        made.append(weakref.ref(self))
        original(self, *args)

    model, compiled = lstm()
    x = torch.randn(9, 2, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrent_operator._Graph, "__init__", noted)
        results = compiled(x)
        assert [each() is not None for each in made] == [True]
        del results
        compiled(x)[0].sum().backward()
        gc.collect()
        assert [each() for each in made] == [None, None]


def test_without_gradients() -> None:
    model, compiled = lstm(dropout=0.5)
    x = torch.randn(9, 2, 3)
    for mode in (torch.no_grad, torch.inference_mode):
        results = []
        for each in (model, compiled):
            torch.manual_seed(1)
            with mode():
                results.append((each(x)[0], torch.rand(1)))
        torch.testing.assert_close(*results)
        assert results[0][0].is_inference() == results[1][0].is_inference()


# ------------------------------------------------------------------ around the layer


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_autocast(kind: Any, backend: str) -> None:
    model = kind(3, 4, 2, batch_first=True)

    def program(x: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    compiled = stator.compile(program, backend=backend)
    x = torch.randn(2, 9, 3)
    results = []
    for each in (program, compiled):
        model.zero_grad()
        output, last = each(x)
        output.float().sum().backward()
        results.append(([output, *tensors(last)], [p.grad for p in model.parameters()]))
    torch.testing.assert_close(results[1][0], results[0][0], atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(results[1][1], results[0][1], atol=5e-2, rtol=5e-2)


def test_a_training_step_in_one_graph() -> None:
    torch.manual_seed(0)
    models = [nn.GRU(3, 4, 2)]
    models.append(copy.deepcopy(models[0]))
    losses = []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def training(x: Tensor, model: Any = model, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = model(x)[0].pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        torch.manual_seed(1)
        run = training
        if model is models[1]:
            run = stator.compile(training, backend="aot_eager", fullgraph=True)
        losses.append([run(torch.randn(9, 2, 3)) for _ in range(4)])
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(list(each.parameters()) for each in models))


def test_gradients_of_gradients() -> None:
    model = nn.GRU(3, 4)

    def program(x: Tensor) -> Tensor:
        result = model(x)[0].sin().sum()
        (found,) = torch.autograd.grad(result, x, create_graph=True)
        return found.pow(2).sum()

    compiled = stator.compile(program, backend="aot_eager")
    x = torch.randn(6, 2, 3, requires_grad=True)
    grads = []
    for each in (program, compiled):
        model.zero_grad()
        each(x).backward()
        grads.append([model.weight_ih_l0.grad, model.weight_hh_l0.grad])
    torch.testing.assert_close(*grads)


def test_transforms() -> None:
    model = nn.GRU(3, 4)

    def program(x: Tensor) -> Any:
        return torch.func.grad(lambda each: model(each)[0].sum())(x)

    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    x = torch.randn(6, 2, 3)
    torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.filterwarnings("error:a graph runs uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_that_the_program_changes(backend: str) -> None:
    model = nn.GRU(3, 4, batch_first=True)

    def program(x: Tensor) -> Tensor:
        output, last = model(x)
        output.mul_(2)
        last += 1
        return output.sum() + last.sum()

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(2, 9, 3)
    grads = []
    for each in (program, compiled):
        model.zero_grad()
        loss = each(x)
        loss.backward()
        grads.append([loss.detach(), *(p.grad for p in model.parameters())])
    torch.testing.assert_close(*grads)


def test_a_result_that_the_backward_needs() -> None:
    """oneDNN's kernel needs its result for the backward."""
    model = nn.LSTM(3, 4)

    def program(x: Tensor) -> Any:
        output, _ = model(x)
        output.mul_(2)
        try:
            output.sum().backward()
        except RuntimeError as error:
            return str(error).partition(":")[0]
        return None

    x = torch.randn(9, 2, 3)
    expected = program(x)
    assert expected is not None
    assert stator.compile(program, backend="eager")(x) == expected


def test_texts() -> None:
    def program(model: Any, x: Tensor) -> str:
        output, last = model(x)
        return f"{output} {last}"

    for kind, options in (("lstm", {}), ("lstm", {"batch_first": True}), ("gru", {})):
        model = KINDS[kind](3, 4, **options)
        x = torch.randn(5, 2, 3)
        assert stator.compile(program, backend="eager")(model, x) == program(model, x)


def test_refused_arguments() -> None:
    def program(x: Tensor, h: Tensor, weights: Any) -> Any:
        return torch.gru(x, h, weights, True, 1, 0.0, False, False, False)

    layer = nn.GRU(3, 4)
    weights = [each.detach() for each in layer._flat_weights]
    good = (torch.randn(5, 2, 3), torch.randn(1, 2, 4), weights)
    bad = [
        (torch.randn(5, 2, 5), good[1], weights),
        (torch.randn(0, 2, 3), good[1], weights),
        (good[0], torch.randn(1, 2, 5), weights),
        (good[0].double(), good[1], weights),
        (good[0], good[1], weights[:3]),
        (torch.randn(5), good[1], weights),
    ]
    compiled = stator.compile(program, backend="eager")
    torch.testing.assert_close(compiled(*good), program(*good))
    for args in bad:
        outcomes = []
        for each in (program, compiled):
            with contextlib.ExitStack():
                try:
                    outcomes.append(each(*args))
                except (RuntimeError, ValueError, IndexError) as error:
                    outcomes.append((type(error), str(error)))
        torch.testing.assert_close(outcomes[1], outcomes[0]) if isinstance(
            outcomes[0][0], Tensor
        ) else None
        assert isinstance(outcomes[0][0], Tensor) or outcomes[0] == outcomes[1]
