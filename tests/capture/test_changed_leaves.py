# mypy: ignore-errors
"""Inputs that require grad and are changed: leaves of autograd in one call, results in another."""

import pytest
import torch

import stator

from .harness import Recording


def through_detach(x):
    x.detach().add_(10)
    return x * 2


def without_grad(x):
    with torch.no_grad():
        x.mul_(3)
    return x * 2


def through_data(x):
    x.data.add_(1)
    return x * x


def items(x):
    x.detach()[0] = 5
    return (x * x).sum()


def in_place(x):
    x.add_(10)
    return x * 2


def in_a_view(x):
    x.view(2, 2)[1].add_(10)
    return x * 2


PROGRAMS = [through_detach, without_grad, through_data, items, in_place, in_a_view]


def called(function, kind):
    leaf = torch.arange(1.0, 5.0, requires_grad=True)
    x = leaf * 1 if kind == "result" else leaf
    if kind == "parameter":
        leaf = x = torch.nn.Parameter(leaf.detach())
    try:
        y = function(x)
    except RuntimeError as error:
        return str(error), x.tolist()
    y.sum().backward()
    return y.tolist(), x.tolist(), leaf.grad.tolist(), x.is_leaf


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "kinds", [("result", "leaf"), ("leaf", "result"), ("result", "parameter", "leaf")], ids="-".join
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_leaves_and_results(program, kinds, backend):
    stator.reset()
    compiled = stator.compile(program, backend=backend)
    for kind in (*kinds, *kinds):
        assert called(compiled, kind) == called(program, kind)


def under_no_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x * x


def detached(x):
    x.detach_()
    return x * 2


def test_a_view_of_a_leaf_is_changed_without_grad():
    """AOTAutograd refuses that when the graph has run, and has changed nothing."""
    stator.reset()
    compiled = stator.compile(under_no_grad, backend="aot_eager")
    for _ in range(3):
        leaves = [torch.arange(4.0).requires_grad_() for _ in range(2)]
        expected, found = (
            function(leaf[1:])
            for function, leaf in zip((under_no_grad, compiled), leaves, strict=True)
        )
        assert found.tolist() == expected.tolist()
        assert leaves[0].tolist() == leaves[1].tolist()


def test_views_are_not_detached_in_place():
    stator.reset()
    backend = Recording()
    compiled = stator.compile(detached, backend=backend)
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    assert backend.graphs == [["mul"]]
    view = torch.arange(4.0)[1:]
    for function in (detached, compiled):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            function(view)


def test_graphs():
    """One for each: a graph that is right for a result is none for a leaf."""
    stator.reset()
    backend = Recording()
    compiled = stator.compile(through_detach, backend=backend)
    for kind in ("result", "leaf", "result", "leaf"):
        called(compiled, kind)
    assert len(backend.graphs) == 2
