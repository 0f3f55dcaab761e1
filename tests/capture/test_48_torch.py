# mypy: ignore-errors
"""Graphs that depend on values, with other features of torch: backends, gradients, empty tensors.

A scenario is called with many values, one after the other: what is assumed in one call must not
hold for the next. It gets a function that compiles; one that compiles nothing is the reference.
"""

from typing import Any

import pytest
import torch
import torch.distributions as D
import torch.fx as fx
from torch import Tensor
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified

import stator

from .compared import Compile, Scenario, attempt, seen_of_values
from .describe import same

SCENARIOS = []
BACKENDS = ["eager", "aot_eager"]
VALUES = ([0, 1, 0, 1], [0, 1, 2, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [2, 2, 0, 0])
pytestmark = pytest.mark.filterwarnings("ignore")


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def over_values(function: Any, *, grad: bool = False) -> list[object]:
    """The results for all values, and what became of the argument."""
    results: list[object] = []
    for values in VALUES:
        leaf = torch.tensor(values, dtype=torch.float32, requires_grad=grad)
        x = leaf * 1
        results += [attempt(function, x), x]
    return results


# ---------------------------------------------- sizes that backends would know, were they told


@scenario
def rows_that_are_found(compiling: Compile) -> object:
    def distinct(x: Tensor) -> list[Tensor]:
        return [each + 1 for each in x.unique()]

    def positive(x: Tensor) -> list[Tensor]:
        return [x * i for i in range(x[x > 0].shape[0])]

    def places(x: Tensor) -> int:
        return len(list(x.nonzero()))

    return [over_values(compiling(each)) for each in (distinct, positive, places)]


@scenario
def a_size_decides(compiling: Compile) -> object:
    def two(x: Tensor) -> Tensor:
        found = x[x > 0]
        return found * 2 if len(found) == 2 else x[: found.shape[0]]

    function = compiling(two)
    return over_values(function), over_values(function, grad=True)


@scenario
def sizes_that_are_the_same(compiling: Compile) -> object:
    def added(x: Tensor) -> Tensor:
        return x[x > 0] + x.flip(0)[:3].nonzero().squeeze(1)

    return over_values(compiling(added))


@scenario
def an_input_changes_after_a_look(compiling: Compile) -> object:
    def looked(x: Tensor) -> tuple[list[Tensor], Tensor]:
        found = x[x > 0]
        x.add_(1)
        return [each * 2 for each in found], x

    function = compiling(looked)
    return over_values(function), over_values(function, grad=True)


@scenario
def sizes_are_asked_for_first_where_it_breaks(compiling: Compile) -> object:
    def filled(x: Tensor) -> Tensor:
        y = x.sin()
        y.add_(1)
        return y + torch.full((x.shape[0] + 1,), x.sum())[1:]

    function = compiling(filled)
    return [function(torch.arange(float(n))) for n in (4, 5, 6)]


@scenario
def a_buffer_and_the_part_of_it_that_grows(compiling: Compile) -> object:
    def written(part: Tensor, buffer: Tensor) -> tuple[Any, ...]:
        part.add_(1)
        return buffer * 2, buffer.shape[0], part.sum(), part.shape[0]

    def read(buffer: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
        return part * buffer.shape[0], buffer.sin()

    written, read = compiling(written), compiling(read)
    results: list[object] = []
    for n, length in ((2, 6), (3, 6), (4, 6), (0, 6), (1, 6), (6, 6), (3, 7), (4, 8), (8, 8)):
        buffer = torch.arange(float(length))
        results += [written(buffer[:n], buffer), buffer, read(buffer, buffer[:n])]
    return results


# --------------------------------------------------------------------- what is usual, and isn't


@scenario
def what_is_usual_is_not_so(compiling: Compile) -> object:
    def halves(x: Tensor) -> tuple[Tensor, ...]:
        return torch.arange(int(x.sum()) % 4).chunk(2)

    return over_values(compiling(halves))


@scenario
def lists_of_what_is_found(compiling: Compile) -> object:
    def lists(x: Tensor) -> list[Any]:
        found = x[x > 0]
        return [found.tolist()[:3], x.nonzero().tolist(), found.view(-1, 1).tolist()]

    return over_values(compiling(lists))


# ------------------------------------------------------------------------------------- nothing


@scenario
def the_maximum_of_nothing(compiling: Compile) -> object:
    def unused(x: Tensor, y: Tensor) -> Tensor:
        x.max(0)
        return y + 1

    def behind_a_change(x: Tensor, y: Tensor) -> Tensor:
        y.mul_(2)
        return x.max(0).values + y

    def handled(x: Tensor) -> Tensor:
        try:
            return x.argmax(0)
        except IndexError:
            return x.sum()

    results: list[object] = []
    for function in (compiling(unused), compiling(behind_a_change)):
        for n in (2, 0, 3, 0):
            y = torch.ones(2)
            results += [attempt(function, torch.ones(n), y), y]
    function = compiling(handled)
    return results, [function(torch.ones(n)) for n in (2, 0, 3, 0)]


@scenario
def what_is_refused_depends_on_open_sizes(compiling: Compile) -> object:
    def windows(x: Tensor, n: int) -> Tensor:
        try:
            return x.unfold(1, n, 1)
        except RuntimeError:
            return x.sum()

    def rows(x: Tensor) -> Tensor:
        try:
            return x.view(x.shape[1] - 3, -1)
        except RuntimeError:
            return x.sum()

    windows, rows = compiling(windows), compiling(rows)
    sizes = ((4, 6), (6, 6), (5, 7), (7, 7), (3, 9), (9, 3))
    return [(windows(torch.ones(0, n), k), rows(torch.ones(0, n))) for n, k in sizes]


# ------------------------------------------------------------------------------ random numbers


@scenario
def checks_are_no_part_of_the_backward_pass(compiling: Compile) -> object:
    def sampled(x: Tensor) -> Tensor:
        return D.OneHotCategoricalStraightThrough(logits=x).rsample()

    sampled, results = compiling(sampled), []
    for n in (2, 3, 3):
        x = torch.arange(n * 3.0).view(n, 3).requires_grad_()
        torch.manual_seed(n)
        y = sampled(x)
        y.sum().backward()
        results += [y, torch.rand(2), (x.grad * 1e3).round()]
    return results


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", SCENARIOS, ids=lambda each: each.__name__)
def test_scenario(function: Scenario, backend: str, dynamic: bool | None) -> None:
    def compiling(each: Any) -> Any:
        return stator.compile(each, backend=backend, dynamic=dynamic)

    stator.reset()
    assert seen_of_values(function, compiling) == seen_of_values(function, lambda each: each)


def test_checks_of_sizes_reach_the_backend() -> None:
    """They must look at what is found, and not be known to hold when AOTAutograd traces again."""
    graphs = []

    def keep(module: fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module.graph)
        return make_boxed_func(module.forward)

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        return aot_module_simplified(module, inputs, fw_compiler=keep)

    def rows(x: Tensor) -> list[Tensor]:
        return [each + 1 for each in x[x > 0]]

    compiled = stator.compile(rows, backend=backend)
    for values in VALUES:
        x = torch.tensor(values)
        assert same(compiled(x), rows(x))
    graph = graphs[0]
    checks = [n for n in graph.nodes if n.target is torch.ops.aten._assert_scalar.default]
    assert checks
    assert all(isinstance(check.args[0], fx.Node) for check in checks)
