# mypy: ignore-errors
"""Compiled functions beside torch's other tools: its tracers, inference mode, Dynamo's wrappers."""

import copy

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import stator

from .harness import Recording

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.filterwarnings("ignore")


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        return self.last(self.inner(x) + 1)


def function(x):
    return torch.sin(x) * 2


def compiled_module(options):
    return stator.compile(Inner(), **options)


def compiled_in_place(options):
    return stator.compile_module_(Inner(), **options)


def compiled_submodule(options):
    return Outer(compiled_module(options))


def compiled_function(options):
    return stator.compile(function, **options)


MODELS = [compiled_module, compiled_in_place, compiled_submodule, compiled_function]
TRACERS = {
    "jit": lambda m, x: torch.jit.trace(m, (x,), check_trace=False),
    "fx": lambda m, x: torch.fx.symbolic_trace(m),
    "make_fx": lambda m, x: make_fx(m)(x),
    "export": lambda m, x: torch.export.export(m, (x,), strict=False).module(),
}


def operators(traced):
    if isinstance(traced, torch.fx.GraphModule):
        return [str(n.target) for n in traced.graph.nodes if n.op.startswith("call")]
    return [n.kind() for n in traced.inlined_graph.nodes() if n.kind().startswith("aten::")]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("make", MODELS)
def test_another_tracer_sees_the_program(make, tracer, warm, fullgraph) -> None:
    if make is compiled_function and tracer in ("fx", "export"):
        pytest.skip("it takes Python functions, or modules")
    torch.manual_seed(0)
    backend = Recording()
    model = make({"backend": backend, "fullgraph": fullgraph})
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    if warm:
        model(x)
    compiled = len(backend.graphs)
    traced = TRACERS[tracer](model, x)
    assert len(operators(traced)) >= 2
    assert len(backend.graphs) == compiled  # nothing was compiled for the tracer
    torch.testing.assert_close(traced(y), model(y))
    assert len(backend.graphs) == 1


def test_a_tracer_and_code_of_aot_autograd() -> None:
    """What AOTAutograd has made runs apart from the tracer of torch.jit."""
    model = stator.compile(Inner(), backend="aot_eager")
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    model(x)
    traced = torch.jit.trace(model, (x,))  # which also compares the two
    assert len(operators(traced)) == 2
    torch.testing.assert_close(traced(y), model(y))


# ---------------------------------------------------------------------------- inference mode


@torch.inference_mode()
def decorated(x):
    y = x.cos()
    x.add_(1)
    return y, y.view(-1), x, x + 1


def entered_inside(x):
    with torch.inference_mode():
        y = x.cos()
        stator.graph_break()
        z = y.sin()
    return y.is_inference(), y, z, y.t(), x * 2


def left_inside(x):
    with torch.inference_mode():
        y = x.cos()
        with torch.inference_mode(False):
            z = x.clone()
    return y, z


def called_inside(x):
    return x.cos(), x.view(-1)


def said(results):
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    return [
        [each.tolist() if isinstance(each, torch.Tensor) else each for each in results],
        [(each.is_inference(), each.requires_grad, each.stride()) for each in tensors],
        [[a.data_ptr() == b.data_ptr() for a in tensors] for b in tensors],
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("program", [decorated, entered_inside, left_inside, called_inside])
def test_results_of_inference_mode(program, outside, backend) -> None:
    found = []
    for each in (program, stator.compile(program, backend=backend)):
        x = torch.arange(6.0).view(2, 3).clone()
        with torch.inference_mode(outside):
            found.append(said(each(x)))
    assert found[0] == found[1]


def test_a_parameter_of_inference_mode() -> None:
    with torch.inference_mode():
        parameter = nn.Parameter(torch.ones(3))
    compiled = stator.compile(left_inside, backend="aot_eager")
    assert [each.is_inference() for each in compiled(parameter)] == [True, False]


# ---------------------------------------------------------------------------- Dynamo's wrappers


def module_made(x):
    made = nn.Linear(3, 3, bias=False)
    made.weight.data.fill_(1.0)
    return made(x)


def module_copied(model, x):
    return copy.deepcopy(model)(x)


@pytest.fixture
def dynamo():
    """From now on, modules of the process are made by Dynamo's wrappers."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert nn.Module.__init__.__module__ == "torch._dynamo.mutation_guard"


@pytest.mark.usefixtures("dynamo")
@pytest.mark.parametrize("program", [module_made, module_copied])
def test_modules_are_made_by_wrappers(program) -> None:
    given = (torch.ones(2, 3),) if program is module_made else (nn.Linear(3, 2), torch.ones(2, 3))
    backend = Recording()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(*given), program(*given))
    assert len(backend.graphs) == 1


@pytest.mark.usefixtures("dynamo")
def test_a_module_that_stays() -> None:
    def grown(layers, x):
        layers.append(nn.Linear(3, 2))
        return layers[-1](x)

    layers = nn.ModuleList()
    found = stator.compile(grown, backend="eager", fullgraph=True)(layers, torch.ones(3))
    assert torch.equal(found, layers[0](torch.ones(3)))
    found.sum().backward()
    assert layers[0].weight.grad is not None
