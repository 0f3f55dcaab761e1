"""What a graph assumes of symbolic sizes."""

import operator
from typing import Any

import pytest
import torch

from stator.graph import OutputGraph
from stator.graph.unknown.shape_guards import shape_guards


def matrix(rows: int) -> Any:
    return torch.zeros(rows, 4)


def test_a_free_size() -> None:
    graph = OutputGraph()
    x = graph.add_input("x", matrix(6), dynamic_dims=[0])
    graph.call(torch.relu, (x,))
    guards = shape_guards(graph)
    assert guards.violation({"x": matrix(6)}) is None
    assert guards.violation({"x": matrix(60)}) is None
    for special in (0, 1):
        assert guards.violation({"x": matrix(special)}) == "x.size(0) >= 2"


def test_equal_sizes() -> None:
    graph = OutputGraph()
    x = graph.add_input("x", matrix(6), dynamic_dims=[0])
    y = graph.add_input("y", matrix(6), dynamic_dims=[0])
    graph.call(operator.add, (x, y))
    guards = shape_guards(graph)
    assert guards.violation({"x": matrix(9), "y": matrix(9)}) is None
    assert guards.violation({"x": matrix(9), "y": matrix(6)}) is not None


def test_a_size_that_became_a_number() -> None:
    graph = OutputGraph()
    x = graph.add_input("x", matrix(6), dynamic_dims=[0])
    graph.call(operator.add, (x, graph.add_input("y", matrix(6))))
    guards = shape_guards(graph)
    assert guards.violation({"x": matrix(6)}) is None
    assert guards.violation({"x": matrix(7)}) is not None


def test_a_condition_that_the_program_asked() -> None:
    graph = OutputGraph()
    x = graph.add_input("x", matrix(6), dynamic_dims=[0])
    assert x.shape[0] * 2 > 9
    guards = shape_guards(graph)
    assert guards.violation({"x": matrix(5)}) is None
    assert "x.size(0)" in (guards.violation({"x": matrix(4)}) or "")


def test_strides_follow_sizes() -> None:
    graph = OutputGraph()
    graph.add_input("x", torch.zeros(3, 6), dynamic_dims=[1])
    guards = shape_guards(graph)
    assert guards.violation({"x": torch.zeros(3, 9)}) is None
    assert "x.stride(0)" in (guards.violation({"x": torch.zeros(3, 20)[:, :9]}) or "")


def test_an_int() -> None:
    graph = OutputGraph()
    n = graph.add_input("n", 5)
    assert n > 2
    guards = shape_guards(graph)
    assert guards.violation({"n": 3}) is None
    assert guards.violation({"n": 2}) is not None


@pytest.mark.parametrize("size", [2, 3, 8])
def test_divisibility(size: int) -> None:
    graph = OutputGraph()
    x = graph.add_input("x", matrix(6), dynamic_dims=[0])
    graph.call(("method", "view"), (x, 2, x.shape[0] // 2, 4))
    violation = shape_guards(graph).violation({"x": matrix(size)})
    assert (violation is None) is (size % 2 == 0 and size > 2)
