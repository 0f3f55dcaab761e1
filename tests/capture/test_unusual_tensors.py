# mypy: ignore-errors
"""Tensors that a graph can't take, whatever is left open; tensors that guards must not ask."""

import warnings

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import x

MAKERS = {
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged
    ),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse_rows": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    "mkldnn": lambda: torch.ones(3).to_mkldnn(),
}


def copied(given):
    return given.clone(), given.dtype, given.layout, given.dim()


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.filterwarnings("ignore")
def test_unusual_tensors(kind, dynamic):
    if kind == "mkldnn" and not torch.backends.mkldnn.is_available():
        pytest.skip("no mkldnn")
    stator.reset()
    compiled = stator.compile(copied, backend="eager", dynamic=dynamic)
    for _ in range(2):
        given = MAKERS[kind]()
        assert repr(compiled(given)) == repr(copied(given))


def trained(given):
    given.requires_grad_()
    loss = (given * 2).sum()
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("action", ["always", "error"])
def test_guards_ask_no_result_for_its_gradient(action):
    """torch would warn of that, where the program itself does not ask."""
    backend = Recording()
    compiled = stator.compile(trained, backend=backend)
    leaf = x()
    compiled(leaf)
    compiled(leaf)
    count = len(backend.graphs)
    for function in (trained, compiled):
        source = x().requires_grad_()
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter(action)
            assert function(source * 2) == 12
        assert [each.message for each in given] == []
        assert source.grad.tolist() == [4, 4, 4]
    compiled(leaf)
    assert leaf.grad.tolist() == [6, 6, 6]
    assert count == 2


def test_a_view_made_without_grad_is_a_leaf_with_a_gradient():
    """One of the few leaves of which autograd's own flag does not say so."""

    def read(given):
        return given * 2, given.grad is None

    backend = Recording()
    compiled = stator.compile(read, backend=backend)
    base = torch.arange(4.0).requires_grad_()
    with torch.no_grad():
        given = base[1:]
    assert given.is_leaf
    assert given.requires_grad
    for _ in range(2):
        assert repr(compiled(given)) == repr(read(given))
    given.grad = torch.ones(3)
    assert repr(compiled(given)) == repr(read(given))
    assert len(backend.graphs) == 2


def test_results_with_and_without_a_gradient():
    """That a result keeps no gradient, and was given none, is a fact."""

    def read(given):
        return given * 2, given.grad

    def made(kind):
        result = x().requires_grad_() * 1
        if kind == "kept":
            result.retain_grad()
            result.sum().backward()
        elif kind == "given":
            result.grad = torch.full((3,), 5.0)
        return result

    backend = Recording()
    compiled = stator.compile(read, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ("none", "none", "kept", "given", "none", "given"):
            assert repr(compiled(made(kind))[1]) == repr(read(made(kind))[1]), kind
    assert backend.graphs[0] == ["mul"]
