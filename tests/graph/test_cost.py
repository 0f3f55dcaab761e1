"""What an operator costs in a trace: counted in calls of Python functions, not in time."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

import stator
from stator.evaluator import PACKAGE

X = torch.randn(3)


def program(line: str, count: int) -> Callable[..., Any]:
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    text = f"def made(x):\n    for i in range({count}):\n        x = {line}\n    return x\n"
    exec(compile(text, f"<{line} {count} times>", "exec"), names)
    return names["made"]  # type: ignore[no-any-return]


class Nested(torch.nn.Module):
    def __init__(self, depth: int, count: int) -> None:
        super().__init__()
        self.inner = Nested(depth - 1, count) if depth else program("torch.relu(x)", count)

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


def calls(function: Callable[..., Any], nodes: int) -> int:
    """How many functions of stator's are called while the first call is compiled."""
    found = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = stator.compile(function, backend=backend, fullgraph=True)
    sys.setprofile(note)
    try:
        compiled(X)
    finally:
        sys.setprofile(None)
    assert [len(graph.graph.find_nodes(op="placeholder")) for graph in graphs] == [1]
    assert len(graphs[0].graph.nodes) == nodes + 2
    return found


def each(made: Callable[[int], Callable[..., Any]]) -> float:
    """The calls for one more operator."""
    calls(made(2), 2)  # what is found out once
    return (calls(made(60), 60) - calls(made(20), 20)) / 40


@pytest.mark.parametrize("line", ["torch.relu(x)", "F.relu(x)", "x.relu()", "x + 1", "x.view(3)"])
def test_an_operator(line: str) -> None:
    assert each(lambda count: program(line, count)) < 95


def test_callers_cost_nothing() -> None:
    flat = each(lambda count: program("torch.relu(x)", count))
    deep = each(lambda count: Nested(8, count))
    assert deep - flat < 10
