"""Graphs that check values: what is saved before they run, and given back when a check fails."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator.graph import OutputGraph
from stator.graph.passes.retry import Refused, Retry, changes_of, retry_of
from stator.graph.recording.state import StateRecorder

Program = Callable[[OutputGraph, Any, Any], Any]


def item(graph: OutputGraph, tensor: Any) -> Any:
    return graph.call(("method", "item"), [tensor])


def recorded(program: Program) -> tuple[Retry | None, Any]:
    """How a graph of a (4,) tensor and an integer is tried, and the graph."""
    graph = OutputGraph()
    x = graph.add_input("x", torch.arange(4.0))
    n = graph.add_input("n", torch.tensor(2))
    made = graph.finish([program(graph, x, n)])
    return retry_of(graph, made, changes_of(graph, made)), made.module


def tried(program: Program, n: int) -> tuple[Retry, torch.Tensor, Any]:
    retry, module = recorded(program)
    assert retry is not None
    x = torch.arange(4.0)
    before = x._version
    try:
        return retry, x, retry.around(module)(x, torch.tensor(n))
    except Refused:
        assert x._version == before
        return retry, x, None


def sizes(graph: OutputGraph, x: Any, n: Any) -> Any:
    return graph.call(torch.mul, [x, graph.call(torch.ones, [item(graph, n), 4])])


def changes_and_sizes(graph: OutputGraph, x: Any, n: Any) -> Any:
    graph.call(("method", "add_"), [x, 1])
    return graph.call(torch.ones, [item(graph, n)])


def checks_what_it_changes(graph: OutputGraph, x: Any, n: Any) -> Any:
    graph.call(("method", "add_"), [x, n])
    total = graph.call(("method", "to"), [graph.call(torch.sum, [x]), torch.int64])
    return graph.call(torch.ones, [item(graph, total)])


def changes_behind_a_view(graph: OutputGraph, x: Any, n: Any) -> Any:
    y = graph.call(("method", "clone"), [x])
    graph.call(("method", "mul_"), [graph.call(operator.getitem, [y, slice(0, 2)]), n])
    graph.call(("method", "add_"), [x, 1])
    total = graph.call(("method", "to"), [graph.call(torch.sum, [y]), torch.int64])
    return graph.call(torch.ones, [item(graph, total)])


def draws(graph: OutputGraph, x: Any, n: Any) -> Any:
    return graph.call(torch.mul, [graph.call(torch.rand, [4]), sizes(graph, x, n)])


def test_nothing_is_saved_that_does_not_change() -> None:
    retry, _, result = tried(sizes, 3)
    assert retry == Retry(places=retry.places) and result[0].shape == (3, 4)
    assert tried(sizes, -1)[2] is None


def test_checks_are_made_before_inputs_change() -> None:
    retry, x, result = tried(changes_and_sizes, 2)
    assert retry.checks is not None
    assert result[0].shape == (2,) and x.tolist() == [1, 2, 3, 4]
    _, x, result = tried(changes_and_sizes, -2)
    assert result is None and x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("program", [checks_what_it_changes, changes_behind_a_view])
def test_inputs_are_given_back(program: Program) -> None:
    retry, x, result = tried(program, 2)
    assert retry.checks is None and retry.changed == (0,)
    assert result is not None and x.tolist() != [0, 1, 2, 3]
    _, x, result = tried(program, -20)
    assert result is None and x.tolist() == [0, 1, 2, 3]


def test_random_numbers_are_given_back() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    retry, _, result = tried(draws, -2)
    assert retry.random and result is None
    assert torch.equal(before, torch.get_rng_state())
    assert tried(draws, 2)[2] is not None
    assert not torch.equal(before, torch.get_rng_state())


def test_grad_mode_is_given_back() -> None:
    graph = OutputGraph()
    n = graph.add_input("n", torch.tensor(2))
    with StateRecorder(graph) as state:
        state.set_grad_enabled(False)
        ones = graph.call(torch.ones, [item(graph, n)])
        state.set_grad_enabled(True)
    made = graph.finish([ones])
    changes = changes_of(graph, made)
    retry = retry_of(graph, made, changes)
    assert retry is not None and changes.scopes
    with torch.enable_grad():
        with pytest.raises(Refused):
            retry.around(changes.scopes.around(made.module))(torch.tensor(-1))
        assert torch.is_grad_enabled()


def test_what_can_not_be_undone_is_not_tried() -> None:
    def unknown(value: torch.Tensor) -> torch.Tensor:
        return value + 1

    def program(graph: OutputGraph, x: Any, n: Any) -> Any:
        return graph.call(unknown, [sizes(graph, x, n)])

    assert recorded(program)[0] is None


def test_without_checks_that_may_fail_inputs_are_not_copied() -> None:
    def program(graph: OutputGraph, x: Any, n: Any) -> Any:
        graph.call(("method", "add_"), [x, 1])
        return graph.call(torch.mul, [x, item(graph, n)])

    assert recorded(program)[0] is None


def test_graphs_without_values_are_not_tried() -> None:
    assert recorded(lambda graph, x, n: graph.call(torch.relu, [x]))[0] is None
