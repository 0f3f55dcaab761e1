# mypy: ignore-errors
"""Values of tensors that Python code needs: taken for granted as they are, and checked.

A program is captured as one graph for the values of its first call. For other values the graph
refuses, and the call goes on in graphs that take nothing for granted: the results are eager's.
"""

import itertools

import pytest
import torch

import stator

from . import harness
from .harness import Recording


def branch(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y - 1


def branches(x):
    for bound in (0.0, 0.5):
        if x.mean() > bound:
            x = x * 2
        else:
            x = x - 3
    return x


def count(x):
    n = int((x > 0).sum())
    return [x * i for i in range(n)]


def rows(x):
    total = x.new_zeros(())
    for row in x[x > 0]:
        total = total + row * 2
    return total


def name_of_a_value(x):
    table = {"part_0": 1.0, "part_1": 2.0, "part_2": 3.0, "part_3": 4.0}
    which = (x > 0).sum()
    return x * table[f"part_{which}"]


def dropped(x):
    for _ in range(3):
        if torch.rand([]) < 0.5:
            x = x + torch.rand(3)
        else:
            x = x * 2
    return x


def changes_an_input(x):
    x.mul_(2)
    if x.sum() > 0:
        return x + 1
    return x - 1


def keeps_a_list(x, seen=None):
    if x.sum() > 0:
        LOG.append("more")
    else:
        LOG.append("less")
    return x + len(LOG)


LOG = []
TRIPLES = itertools.product((-1.0, 0.25, 2.0), (-1.5, 1.0), (0.5, -3.0))
VALUES = [torch.tensor(values) for values in TRIPLES]


def run(function, x, seed):
    torch.manual_seed(seed)
    before = list(LOG)
    given = x.clone()
    result = function(given)
    seen = list(LOG)
    LOG[:] = before
    return result, given, seen, torch.get_rng_state()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [branch, branches, count, rows, name_of_a_value, dropped, changes_an_input, keeps_a_list],
    ids=lambda program: program.__name__,
)
def test_other_values(program, backend):
    harness.reset_engine()
    compiled = stator.compile(program, backend=backend)
    for seed, x in enumerate(VALUES * 2):
        assert_same(run(compiled, x, seed), run(program, x, seed))


@pytest.mark.parametrize(
    "program",
    [branch, branches, count, rows, name_of_a_value, dropped],
    ids=lambda program: program.__name__,
)
def test_one_graph(program):
    harness.reset_engine()
    backend = Recording()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.tensor([1.0, 2.0, -1.0])
    for _ in range(2):
        assert_same(run(compiled, x, 3), run(program, x, 3))
    assert len(backend.graphs) == 1


def assert_same(found, expected):
    assert found[2] == expected[2]
    for index in (0, 1, 3):
        torch.testing.assert_close(found[index], expected[index], rtol=0, atol=0)


def test_a_graph_that_fails_often_is_given_up():
    harness.reset_engine()
    backend = Recording()
    compiled = stator.compile(branch, backend=backend)
    compiled(torch.ones(3))
    for _ in range(40):
        compiled(-torch.ones(3))
    made = len(backend.graphs)
    ran = len(backend.tape)
    compiled(-torch.ones(3))
    assert len(backend.graphs) == made
    ops = [name.partition(".")[0] for name in backend.tape[ran:]]
    assert ops == ["aten::sin", "aten::sum", "aten::gt", "aten::sub"], "the first graph was tried"


def test_observing_leaves_no_trace():
    """The values are computed while tracing: inputs, modes and random numbers stay as they are."""
    harness.reset_engine()
    norm = torch.nn.BatchNorm1d(3)

    def program(x):
        y = torch.nn.functional.dropout(norm(x), 0.5)
        return y + 1 if y.sum() > 0 else y - 1

    class Stop(Exception):
        pass

    def backend(module, inputs):
        raise Stop

    x = torch.randn(4, 3)
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    torch.manual_seed(7)
    state = torch.get_rng_state()
    with pytest.raises(stator.BackendError):
        stator.compile(program, backend=backend)(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    for key, value in norm.state_dict().items():
        assert torch.equal(value, before[key])


def test_gradients():
    harness.reset_engine()
    weight = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)

    def program(x):
        y = x * weight
        return (y * 2 if y.sum() > 0 else y * 3).sum()

    compiled = stator.compile(program, backend="aot_eager")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        (expected,) = torch.autograd.grad(program(x), weight)
        (found,) = torch.autograd.grad(compiled(x), weight)
        assert torch.equal(found, expected)


def test_what_is_changed_behind_its_back_is_restored():
    harness.reset_engine()

    def program(p):
        p.data.mul_(2)
        return p + 1 if p.sum() > 0 else p - 1

    compiled = stator.compile(program, backend="eager")
    for start in (torch.ones(3), -torch.ones(3), -torch.ones(3)):
        mine, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
        assert torch.equal(compiled(mine), program(theirs))
        assert torch.equal(mine, theirs)
