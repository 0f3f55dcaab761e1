# mypy: ignore-errors
"""Regions of their own, with sizes that are left open: checkpoints, functions, vmap."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.capture.functions import SquareAtOnce
from tests.unknown import networks

from .harness import Counting, compare, tensor


class Scaled(torch.autograd.Function):
    """Sizes are computed with, forth and back, and kept on the way."""

    @staticmethod
    def forward(ctx, x, rows):
        ctx.rows = rows
        ctx.save_for_backward(x)
        return (x * x.shape[0]).reshape(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient.reshape(x.shape) * ctx.rows + x / (3 * x.shape[1]), None


def plain(x):
    return checkpoint(lambda y: y.sin() * 2, x, use_reentrant=False)


def with_sizes(x):
    return checkpoint(
        lambda y: (y * y.shape[0]).reshape(-1) / (y.shape[1] / 3),
        x,
        use_reentrant=False,
    )


def nested(x):
    def inner(z):
        return z.exp().reshape(2 * z.shape[1], -1) if z.shape[0] % 2 == 0 else z * z.shape[0]

    return checkpoint(
        lambda y: checkpoint(inner, y.sin(), use_reentrant=False) * y.shape[0],
        x,
        use_reentrant=False,
    )


def function(x):
    return SquareAtOnce.apply(x + 1) * x.shape[0]


def function_of_sizes(x):
    return Scaled.apply(x + 1, x.shape[0] // 2) * 2  # its own grad_fn would tell `ctx.rows`


def mapped(x):
    return torch.vmap(lambda row: row.sin() * row.shape[0] + row.sum())(x)


def mapped_with_outer_sizes(x):
    n = x.shape[1]
    return torch.vmap(lambda row: row.reshape(-1, 1).expand(n, 2) * (n / 3))(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (plain, 1),
        (with_sizes, 1),
        (nested, 2),
        (function, 1),
        (function_of_sizes, 1),
        (mapped, 1),
        (mapped_with_outer_sizes, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_all_sizes(program, graphs, backend):
    counting = Counting(backend)
    compiled = stator.compile(program, backend=counting, dynamic=True, fullgraph=True)
    for n, m in ((4, 3), (6, 5), (8, 3), (5, 3), (7, 4), (9, 9), (3, 6)):
        given = [tensor(n, m).requires_grad_() for _ in range(2)]
        expected, actual = program(given[0]), compiled(given[1])
        torch.testing.assert_close(actual, expected)
        expected.sum().backward()
        actual.sum().backward()
        torch.testing.assert_close(given[1].grad, given[0].grad)
    assert len(counting.graphs) == graphs


def test_random_numbers_are_the_same_again():
    """With an int among the inputs of a checkpoint."""

    def program(x):
        return checkpoint(
            lambda y: torch.dropout(y * y.shape[0], 0.5, True), x, use_reentrant=False
        )

    compiled = stator.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for n in (4, 6):
        x = torch.ones(n, 50, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert torch.equal(x.grad != 0, y != 0)


def test_what_torch_can_not_map_is_for_one_size():
    def program(x):
        return torch.vmap(lambda row: row + row.sum() / row.shape[0])(x)

    calls = [lambda n=n: (tensor(n, n + 1),) for n in (3, 4, 5)]
    compare(program, calls, dynamic=True, fullgraph=True)


# ---------------------------------------------------------------------- numbers that nobody knows


REGIONS_OF_VALUES = [
    networks.reversed_by_a_value,
    networks.functions_of_what_is_kept,
    networks.checkpoint_of_what_is_kept,
    networks.checkpoint_with_a_count,
    networks.mapped_with_a_value,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", REGIONS_OF_VALUES, ids=lambda each: each.__name__)
def test_regions_with_numbers_from_tensors(function, backend):
    """The numbers are computed outside, and are inputs of the region: one graph, with gradients."""
    counting = Counting(backend)
    compiled = stator.compile(function, backend=counting, fullgraph=True)
    for kept in (3, 1, 0, 4):
        box, score = tensor(4, 4), (torch.arange(4.0) < kept) * 0.9
        found = []
        for call in (function, compiled):
            given = [each.clone().requires_grad_() for each in (box, score)]
            results = call(*given)
            results = results if isinstance(results, tuple) else (results,)
            total = sum((each * each).sum() + each.sum() for each in results)
            grads = torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)
            found.append([*results, *grads])
        torch.testing.assert_close(found[1], found[0])
    assert len(counting.graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_for_the_backward_that_changes(backend):
    """A weight that is scheduled, as that of a gradient reversal: two graphs, not one per step."""

    def adversarial(x, weight):
        return networks.Reversed.apply(x.sin(), weight).sum()

    counting = Counting(backend)
    compiled = stator.compile(adversarial, backend=counting, fullgraph=True)
    for step in range(6):
        x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
        compiled(x, 2 / (1 + step)).backward()
        adversarial(y, 2 / (1 + step)).backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=0)
    assert len(counting.graphs) == 2


def test_a_number_that_is_read_in_a_region():
    """It is known only inside: no graph with it."""

    def inside(x):
        return checkpoint(lambda y: y * y.detach().sum().item(), x + 1, use_reentrant=False)

    with pytest.raises(stator.CaptureError, match="a number depends on values, in a region"):
        stator.compile(inside, backend="eager", fullgraph=True)(tensor(3))
    torch.testing.assert_close(
        stator.compile(inside, backend="eager")(tensor(3)), inside(tensor(3))
    )
