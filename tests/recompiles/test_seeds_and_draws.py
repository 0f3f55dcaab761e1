"""Seeds that change, and branches on random numbers: what is compiled, and what is drawn."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

import stator

from .tools import Counting

pytestmark = pytest.mark.usefixtures("no_warnings")
SEEDS = [0, 1, 7, -3, 2**30, 1, 2**40, 5]


def seeded(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed)
    return x + torch.rand(4)


def seeded_and_kept(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed)
    return x + torch.rand(4), {"seed": seed}


def seeded_twice(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed)
    torch.manual_seed(seed)
    return x + torch.rand(4)


def seeded_behind(x: Tensor, seed: int) -> Any:
    y = x + torch.rand(4)
    torch.manual_seed(seed)
    return y


def drawn_behind(x: Tensor, seed: int) -> Any:
    y = x + torch.rand(4)
    torch.manual_seed(seed)
    return y + torch.rand(4)


def computed_from(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed + 1)
    return x + torch.rand(4)


def used_otherwise(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed)
    return x * seed + torch.rand(4)


def taken_for_granted(x: Tensor, seed: int) -> Any:
    """If a check in the graph fails, the seed is undone before the program runs."""
    torch.manual_seed(seed)
    y = x + torch.rand(4)
    return y.sin() if y.sum() > 2 else y.cos()


def only_seeded(x: Tensor, seed: int) -> Any:
    torch.manual_seed(seed)


ALL = [
    seeded,
    seeded_and_kept,
    seeded_twice,
    seeded_behind,
    drawn_behind,
    computed_from,
    used_otherwise,
    taken_for_granted,
    only_seeded,
]


def outcome(function: Any, x: Tensor, seed: Any) -> str:
    torch.manual_seed(99)
    try:
        result = function(x, seed)
    except Exception as error:
        result = type(error), str(error)
    return str((result, torch.rand(2)))  # and what the generator is left with


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_like_eager(function: Any, backend: str, dynamic: bool | None) -> None:
    stator.reset()
    compiled = stator.compile(function, backend=backend, dynamic=dynamic, recompile_limit=64)
    for n, seed in enumerate([*SEEDS, 2**70, *SEEDS]):
        x = torch.full((4,), float(n % 3 - 1))
        assert outcome(compiled, x, seed) == outcome(function, x, seed)


@pytest.mark.parametrize("function", [seeded, seeded_and_kept, seeded_twice])
def test_another_seed_is_no_compile(function: Any) -> None:
    backend = Counting()
    compiled = stator.compile(function, backend=backend)
    for seed in range(6):
        x = torch.ones(4)
        assert outcome(compiled, x, seed) == outcome(function, x, seed)
    assert backend.graphs == 1


def branch(x: Tensor) -> Any:
    return x.sin() if random.random() < 0.5 else x.cos()


def two_branches(x: Tensor) -> Any:
    y = x.sin() if random.random() < 0.5 else x.cos()
    return y * 2 if random.randint(0, 9) > 4 else y * 3


@pytest.mark.parametrize("function", [branch, two_branches])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_branches_on_random_numbers(function: Any, backend: str) -> None:
    compiled = stator.compile(function, backend=backend, recompile_limit=64)
    found: list[str] = []
    expected: list[str] = []
    for each, run in ((found, compiled), (expected, function)):
        random.seed(3)
        each += [str(run(torch.ones(3))) for _ in range(24)]
        each.append(str(random.random()))
    assert found == expected


def test_numbers_alone_are_no_graph_for_a_backend() -> None:
    """Which way a random number goes is asked by no compiled code."""
    graphs: list[list[str]] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append([str(n.target) for n in module.graph.nodes if n.op.startswith("call")])
        return module.forward

    compiled = stator.compile(branch, backend=backend)
    random.seed(0)
    for _ in range(12):
        compiled(torch.ones(3))
    assert len(graphs) == 3  # one that takes the first way for granted, and one for each
    assert all({"sin", "cos"} & {*graph} for graph in graphs)


def test_tensors_without_dimensions_are_tensors() -> None:
    """What the program gives to a graph is the backend's, however small."""
    backend = Counting()

    def run(x: Tensor, n: int) -> Any:
        return (x + 1) * n

    compiled = stator.compile(run, backend=backend)
    for n in range(2, 5):
        x = torch.tensor(1.5, dtype=torch.float64)
        assert compiled(x, n).item() == 2.5 * n
    assert backend.graphs == 2
