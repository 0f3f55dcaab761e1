# mypy: ignore-errors
"""`torch.vmap`: the function is a subgraph of one node; and what other regions share with it."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
WEIGHT = torch.randn(3, requires_grad=True)
LINEAR = torch.nn.Linear(3, 3)


def rows(x):
    return torch.vmap(lambda row: row * row.sum())(x)


def other_dimensions(x):
    made = torch.vmap(lambda p, q: (p * q, q.sum()), in_dims=(0, 1), out_dims=(1, 0))
    first, second = made(x, x.t() + 1)
    return first + 1, second


def tensors_from_outside(x):
    return torch.vmap(lambda row: row @ WEIGHT + LINEAR(row).sum())(x)


def nested(x):
    return torch.vmap(torch.vmap(lambda value: torch.sin(value) * 2))(x)


def with_an_argument_that_is_not_mapped(x):
    return torch.vmap(lambda row, n, other: row * n + other, in_dims=(0, None, None))(x, 3, x[0])


def containers(x):
    def both(pair):
        return {"sum": pair[0] + pair[1], "parts": [pair[0], pair[1].max()]}

    return torch.vmap(both, in_dims=([0, 0],))([x, x * 2])


def empty(x):
    return torch.vmap(lambda row: row.cos())(x[:0])


def counts(x):
    seen = []
    result = torch.vmap(lambda row: (seen.append(row.shape), row + 1)[1])(x)
    return result, seen


def random_rows(x):
    return torch.vmap(lambda row: row + torch.rand(3), randomness="different")(x)


def constants_inside(x):
    return torch.vmap(lambda row: row * torch.tensor([1.0, 2.0, 3.0]))(x)


def wrong_dimension(x):
    return torch.vmap(lambda row: row, in_dims=5)(x)


def keyword_arguments(x):
    return torch.vmap(lambda row, *, n: row * n)(x, n=3)


CAPTURED = [
    rows,
    other_dimensions,
    tensors_from_outside,
    nested,
    with_an_argument_that_is_not_mapped,
    containers,
    empty,
    counts,
    random_rows,
    constants_inside,
    wrong_dimension,
    keyword_arguments,
]


def branch(x):
    return torch.vmap(lambda row: row if row.sum() > 0 else -row)(x)


def changes_its_argument(x):
    return torch.vmap(lambda row: row.add_(1))(x)


def random_without_leave(x):
    return torch.vmap(lambda row: row + torch.rand(3))(x)


def returns_a_number(x):
    return torch.vmap(lambda row: 3)(x)


def keeps_a_row(x):
    kept = []
    torch.vmap(lambda row: (kept.append(row + 1), row)[1])(x)
    return len(kept), kept[0].shape, kept[0] * 2


REFUSED = [
    branch,
    changes_its_argument,
    random_without_leave,
    returns_a_number,
    keeps_a_row,
]


def outcome(function, x):
    torch.manual_seed(1)
    try:
        found = function(x)
    except Exception as error:
        return [type(error), str(error)]
    return torch.utils._pytree.tree_leaves(found)


def same(a, b) -> bool:
    def equal(p, q):
        if isinstance(p, torch.Tensor):
            return p.shape == q.shape and torch.allclose(p, q, rtol=1e-6)
        return p == q

    return len(a) == len(b) and all(map(equal, a, b))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", CAPTURED, ids=lambda fn: fn.__name__)
def test_captured(program, backend) -> None:
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(4, 3)
        assert same(outcome(program, x), outcome(compiled, x))
    assert compiled.statistics()["misses"] == 1


@pytest.mark.parametrize("program", REFUSED, ids=lambda fn: fn.__name__)
def test_refused(program) -> None:
    x = torch.randn(4, 3)
    with pytest.raises(stator.CaptureError):
        stator.compile(program, backend="eager", fullgraph=True)(x.clone())
    stator.reset()
    if program is keeps_a_row:  # a row outside of vmap is of no use in eager either
        return
    assert same(outcome(program, x.clone()), outcome(stator.compile(program, backend="eager"), x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend) -> None:
    found = []
    for function in (tensors_from_outside, stator.compile(tensors_from_outside, backend=backend)):
        x = torch.arange(12.0).reshape(4, 3).requires_grad_()
        function(x).sum().backward()
        found.append([x.grad, WEIGHT.grad.clone(), LINEAR.weight.grad.clone()])
        WEIGHT.grad = None
        LINEAR.zero_grad()
    assert same(*found)


def first_read_in_a_checkpoint(x):
    return checkpoint(lambda y: torch.sin(LINEAR(y) * WEIGHT), x, use_reentrant=False)


def vmap_in_a_checkpoint(x):
    return checkpoint(lambda y: torch.vmap(lambda row: row * WEIGHT)(y), x, use_reentrant=False)


def constant_in_a_checkpoint(x):
    return checkpoint(lambda y: y * WEIGHT * torch.tensor([1.0, 2, 3]), x, use_reentrant=False)


@pytest.mark.parametrize(
    "program",
    [first_read_in_a_checkpoint, vmap_in_a_checkpoint, constant_in_a_checkpoint],
    ids=lambda fn: fn.__name__,
)
def test_regions_read_the_world(program) -> None:
    found = []
    for function in (program, stator.compile(program, backend="eager", fullgraph=True)):
        x = torch.arange(12.0).reshape(4, 3).requires_grad_()
        result = function(x)
        result.sum().backward()
        found.append([result.detach(), x.grad, WEIGHT.grad.clone()])
        WEIGHT.grad = None
        LINEAR.zero_grad()
    assert same(*found)
