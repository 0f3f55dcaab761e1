# mypy: ignore-errors
"""torch's darker corners: memory, modes, transforms, checkpoints.

A scenario gets a function that compiles, makes calls with things changed in between, and returns
all there is to see. It must return the same with a function that compiles nothing.
"""

import contextlib
import math
import weakref
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import stator

from .compared import Compile, Scenario, seen
from .describe import describe

SCENARIOS = []
BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.filterwarnings("ignore")


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def graphs_of(function: Any, *calls: tuple[Any, ...]) -> list[list[str]]:
    """The operators of each graph that such calls make."""
    found: list[list[str]] = []

    def backend(module: Any, inputs: Any) -> Any:
        found.append([node.name for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    compiled = stator.compile(function, backend=backend)
    for args in calls:
        with contextlib.suppress(IndexError, RuntimeError, ValueError):
            compiled(*args)
    return found


def attempt(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error), error.__context__


def t(*shape: int, grad: bool = False) -> Tensor:
    made = torch.arange(math.prod(shape), dtype=torch.float32).sin().reshape(shape)
    return made.requires_grad_() if grad else made


def linear() -> nn.Linear:
    made = nn.Linear(3, 3)
    with torch.no_grad():
        made.weight.copy_(t(3, 3))
        made.bias.copy_(t(3))
    return made


# ---------------------------------------------------------------------- memory


@scenario
def parts_of_tensors_get_another_shape(compiling: Compile) -> object:
    def turned(x: Tensor) -> Tensor:
        x.masked_fill_(x > 0.5, 0.0)
        x.t_()
        x.add_(1)
        return x.sum()

    def resized(x: Tensor) -> Tensor:
        x.resize_(2, 2)
        x.fill_(1.0)
        return x

    turned, resized = compiling(turned), compiling(resized)
    whole, part = t(2, 4), t(3, 4)
    results = [turned(whole), whole, turned(part[1:]), part, turned(part[:2].T), part]
    memory = t(9)
    for x in (memory[:2], t(2), memory[3:5]):
        results += [resized(x), x, memory]
    return results


@scenario
def elements_that_share_memory(compiling: Compile) -> object:
    def cleared(x: Tensor) -> Tensor:
        x.zero_()
        return x + 1

    cleared, row = compiling(cleared), t(1, 4)
    return cleared(t(3, 4)), cleared(row.expand(3, 4)), row, cleared(t(3, 4))


@scenario
def views_that_torch_forbids(compiling: Compile) -> object:
    function, inside = compiling(lambda x: x.sin()), compiling(forbidden_inside)
    x = t(4, grad=True) * 1
    view = x.chunk(2)[0]
    with torch.no_grad():
        x.add_(1)
    return attempt(function, view)[:2], inside(t(4)), type(attempt(inside, t(4, grad=True) * 1))


def forbidden_inside(x: Tensor) -> Any:
    view = x.chunk(2)[0]
    with torch.no_grad():
        x.add_(1)
    return view.sin()


@scenario
def parts_made_inside_are_resized(compiling: Compile) -> object:
    def resized(x: Tensor) -> Tensor:
        part = x[2:4]
        part.resize_(2, 2)
        part.fill_(1.0)
        return part * 2

    def filled(x: Tensor, y: Tensor) -> Tensor:
        part = y[2:2]
        torch.mul(x, 2, out=part)
        return part * 2

    x, y = t(9), t(9)
    return compiling(resized)(x), x, compiling(filled)(t(3), y), y


@scenario
def memory_beside_a_tensor(compiling: Compile) -> object:
    def beside(x: Tensor) -> Any:
        first = x.as_strided((2, 2), (1, 2))
        other = x.as_strided((2,), (1,), 1)
        other.add_(1)
        return first * 2, other

    beside, memory = compiling(beside), t(12)
    return [(beside(x), memory) for x in (memory[:4], memory[3:7], memory)]


def test_as_strided_inside_of_a_tensor_is_captured() -> None:
    found = graphs_of(lambda x: x.as_strided((2, 2), (1, 2)) * 2, (t(4),), (t(8)[4:],))
    assert found == [["as_strided", "mul"]]


@scenario
def arguments_that_are_parameters_too(compiling: Compile) -> object:
    def copied(xs: list[Tensor], p: Tensor) -> Tensor:
        xs[0].copy_(p * 2)
        return (xs[0] * p).sum()

    copied, p = compiling(copied), nn.Parameter(t(3))
    return [(copied([x], p), x, p.detach().clone()) for x in (t(3), p.data, p.detach()[:3])]


@scenario
def bytes_of_a_dynamic_tensor(compiling: Compile) -> object:
    function = compiling(lambda x: (x.nbytes, x.sum()))
    return [function(t(size)) for size in (4, 5, 6)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_weak_references_are_left(backend: str) -> None:
    """`torch.utils.swap_tensors` refuses tensors that have any."""
    x, y = t(3), t(4)
    stator.compile(lambda x, y: (x.add_(1), y * 2), backend=backend)(x, y)
    assert not weakref.getweakrefs(x)
    assert not weakref.getweakrefs(y)
    torch.utils.swap_tensors(x, y)


@scenario
def swapped_inside(compiling: Compile) -> object:
    def swapped(x: Tensor, y: Tensor) -> Any:
        torch.utils.swap_tensors(x, y)
        return x + 1, y

    x, y = t(3), t(4)
    return compiling(swapped)(x, y), x, y


# ---------------------------------------------------------------------- keywords across a break


@scenario
def keywords_behind_a_break(compiling: Compile) -> object:
    generator = torch.Generator()

    def drawn(sizes: tuple[int, ...]) -> Tensor:
        generator.manual_seed(3)
        return torch.randn(*sizes, generator=generator)

    drawn = compiling(drawn)
    return drawn((2, 3)), drawn((2, 3))


# ---------------------------------------------------------------------- modes and transforms


class Noting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@scenario
def under_a_dispatch_mode(compiling: Compile) -> object:
    function, mode, x = compiling(lambda x: (x * 2).sin()), Noting(), t(3)
    with mode:
        first = function(x)
    second = function(x)
    with mode:
        third = function(x)
    return first, second, third, mode.seen


@scenario
def under_transforms(compiling: Compile) -> object:
    function = compiling(lambda x: (x.sin() * x).sum())
    x = t(3)
    return [
        torch.func.grad(function)(x),
        function(x),
        torch.func.vmap(function)(t(2, 3)),
        torch.func.grad(function)(x),
        torch.func.jvp(function, (x,), (x,)),
    ]


def test_what_runs_as_it_is_under_a_mode_is_compiled_without() -> None:
    graphs = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    compiled = stator.compile(lambda x: x.sin() * 2, backend=backend)
    with Noting():
        compiled(t(3))
    torch.func.vmap(compiled)(t(2, 3))
    assert not graphs
    compiled(t(3))
    assert len(graphs) == 1


# ---------------------------------------------------------------------- autograd


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].exp()


class Halfway(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        with torch.no_grad():
            known = ctx.saved_tensors[0].exp()
        return gradient * known


@pytest.mark.parametrize("function", [Exponential, Halfway])
def test_gradients_of_gradients(function: Any) -> None:
    """AOTAutograd has none, so that this is about the graph itself."""

    def twice(compiling: Compile) -> object:
        x = t(3, grad=True)
        y = compiling(lambda x: function.apply(x))(x)  # its name is seen in the `grad_fn`
        (gradient,) = torch.autograd.grad((y * x).sum(), x, create_graph=True)
        return y, gradient, attempt(gradient.sum().backward), x.grad

    assert describe(twice(lambda f: stator.compile(f, backend="eager"))) == describe(
        twice(lambda f: f)
    )


@pytest.mark.parametrize("reentrant", [False, True])
def test_random_numbers_of_checkpoints(reentrant: bool) -> None:
    def trained(compiling: Compile) -> object:
        layer, x = linear(), t(4, 3, grad=True)

        def body(x: Tensor) -> Tensor:
            return F.dropout(layer(x), 0.5).sin()

        function = compiling(lambda x: checkpoint(body, x, use_reentrant=reentrant) * 2)
        torch.manual_seed(1)
        y = function(x)
        y.sum().backward()
        return y, x, list(layer.parameters()), torch.rand(1)

    compiled = trained(lambda f: stator.compile(f, backend="eager", fullgraph=True))
    assert describe(compiled) == describe(trained(lambda f: f))


@scenario
def reentrant_checkpoints_drop_gradients(compiling: Compile) -> object:
    layer = linear()
    function = compiling(lambda x: checkpoint(layer, x, use_reentrant=True) * 2)
    return function(t(4, 3)), function(t(4, 3, grad=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", SCENARIOS, ids=lambda function: function.__name__)
def test_scenario(function: Scenario, backend: str) -> None:
    stator.reset()
    expected = seen(function, lambda each: each)
    assert seen(function, lambda each: stator.compile(each, backend=backend)) == expected
