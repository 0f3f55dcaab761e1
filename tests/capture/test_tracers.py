"""A debugger or a profiler that was set before the call: it sees what happens, and is no part of
the program that is captured."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator

X = torch.randn(3)


class Block(torch.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Block(depth - 1) if depth else torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x) + 1


def sizes(x: torch.Tensor) -> torch.Tensor:
    order = sorted([3, 1, 2], key=lambda n: -n)  # C code calls the program
    for n in map(lambda n: n * 2, order):
        x = x + n
    return x


@pytest.mark.parametrize("switch", [sys.setprofile, sys.settrace], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("program", "nodes"), [(Block(2), 4), (sizes, 3)], ids=["modules", "callbacks"]
)
def test_it_is_no_part_of_the_program(
    program: Callable[..., Any], nodes: int, switch: Callable[[Any], None]
) -> None:
    graphs: list[int] = []
    told: list[str] = []
    count = 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(len([each for each in graph.graph.nodes if each.op.startswith("call_")]))
        return graph.forward

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        told.append(event)
        return tracer

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for call in range(3):
        before = sys.gettrace(), sys.getprofile()
        switch(tracer)
        try:
            result = compiled(X + call)
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
        assert torch.equal(result, program(X + call))
        assert count == len(told) > 0
    assert graphs == [nodes]
