"""Inductor compiles what depends on values, forward and backward: some programs of `inductor`.

Its code is written, not run: that takes a C++ compiler. With `--kernels`, tests.unknown.inductor
runs all programs with it.
"""

# mypy: ignore-errors

import warnings

import pytest
import torch

import stator

from . import inductor, networks

CASES = {case.name: case for case in inductor.cases()}
# One graph: a size that only the mask knows; the same mask twice, whose sizes have two names; sizes
# that are read, too. Split where the backend asks for a size: whether there is a box; a number.
TRAINED = ["summed_over_edges", "two_layers_over_edges", "masked_language_loss"]
SPLIT = ["boxes_of_some_size", "up_to_the_longest"]


@pytest.fixture(autouse=True)
def written():
    with inductor.without_kernels():
        yield


@pytest.mark.parametrize("name", TRAINED + SPLIT)
def test_training(name):
    assert not list(inductor.findings(CASES[name], None, training=True))


@pytest.mark.parametrize("name", ["the_best_nodes_are_kept", "experts"])
def test_without_gradients(name):
    assert not list(inductor.findings(CASES[name], True, training=False))


def test_one_graph():
    function, calls = networks.PROGRAMS[0]
    compiled = stator.compile(function, fullgraph=True)
    for make in calls:
        x, edge = make()
        x.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            (found,) = torch.autograd.grad(compiled(x, edge).square().sum(), x)
        (wanted,) = torch.autograd.grad(function(x, edge).square().sum(), x)
        torch.testing.assert_close(found, wanted)
    assert compiled.statistics()["misses"] <= 2


def test_a_backend_that_can_not_compile_values():
    """The program is split at what makes them, and what is left is compiled."""
    graphs = []

    def backend(module, inputs):
        names = [node.name for node in module.graph.nodes if node.op.startswith("call")]
        if any("unbacked_bindings" in node.meta for node in module.graph.nodes):
            raise RuntimeError("GuardOnDataDependentSymNode: u0")
        graphs.append(names)
        return module.forward

    def program(x):
        y = (x + 1)[x > 0] * 2
        return y.sum() + x.shape[0]

    compiled = stator.compile(program, backend=backend)
    for n in (3, 5, 6, 7):
        x = torch.arange(n) - 1.0
        assert torch.equal(compiled(x), program(x))
    assert graphs[0] == ["add", "gt"]
    assert any("mul" in names for names in graphs)
    with pytest.warns(UserWarning, match="uncompiled"):
        whole = stator.compile(program, backend=backend, fullgraph=True)
        assert torch.equal(whole(x), program(x))
