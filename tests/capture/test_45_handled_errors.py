# mypy: ignore-errors
"""Errors that only kernels find, inside of `try` and `with` blocks of the program.

Here the graph also changes its inputs, calls what is not torch's, or computes for the error alone.
"""

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor

import stator

from .test_41_torch import BACKENDS, Compile, attempt, graphs_of, seen, t

pytestmark = pytest.mark.filterwarnings("ignore")


@torch.library.custom_op("stator_test_45::small", mutates_args=())
def small(x: Tensor) -> Tensor:
    if x.sum() > 100:
        raise ValueError("too large")
    return x.clone()


@small.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


GOOD, BAD = torch.tensor([1, 2]), torch.tensor([1, 9])


def counted(x: Tensor, i: Tensor, count: Tensor) -> Any:
    count.add_(1)
    try:
        y = x[i]
        count.mul_(2)
    except IndexError as error:
        y = str(error)
    finally:
        count.add_(10)
    return y


def suppressed(x: Tensor, i: Tensor, count: Tensor) -> Any:
    y = x
    with contextlib.suppress(IndexError):
        count.add_(torch.rand(1))
        y = x[i]
    return y, count + 1


def inner(x: Tensor, i: Tensor, count: Tensor) -> Tensor:
    count.add_(1)
    return x[i]


def from_a_callee(x: Tensor, i: Tensor, count: Tensor) -> Any:
    for turn in range(3):
        try:
            return inner(x, i - 4 * turn, count), turn
        except IndexError:
            count.mul_(2)
    return None


def not_used(x: Tensor, i: Tensor, count: Tensor) -> Any:
    try:
        x[i]
    except IndexError:
        return x - 1
    return x + 1


def custom(x: Tensor, i: Tensor, count: Tensor) -> Any:
    count.add_(1)
    try:
        return small(x * i.sum() * 9), count * 2
    except ValueError as error:
        return str(error), count * 3


def not_handled(x: Tensor, i: Tensor, count: Tensor) -> Any:
    with torch.no_grad():
        return x[i] * 2


# How many graphs there are: where it breaks, there may be nothing to compute before or behind.
HANDLED = {counted: 1, suppressed: 1, from_a_callee: 1, not_used: 1, custom: 2, not_handled: 1}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", HANDLED, ids=lambda function: function.__name__)
def test_handlers_see_errors_of_kernels(function: Any, backend: str) -> None:
    """Also if the graph changes its inputs before or behind, or calls what is not torch's."""

    def calls(compiling: Compile) -> object:
        compiled, x, count = compiling(function), t(4).abs() + 1, torch.zeros(1)
        return [(attempt(compiled, x, i, count), count.clone()) for i in (GOOD, BAD, GOOD)]

    expected = seen(calls, lambda each: each)
    assert seen(calls, lambda each: stator.compile(each, backend=backend)) == expected
    assert len(graphs_of(function, (t(4), GOOD, torch.zeros(1)))) == HANDLED[function]


def test_what_can_be_undone_is_one_graph() -> None:
    for function in (counted, suppressed, from_a_callee, not_used):
        stator.compile(function, backend="eager", fullgraph=True)(t(4), GOOD, torch.zeros(1))
    with pytest.raises(stator.CaptureError, match="may raise inside of `try`"):
        stator.compile(custom, backend="eager", fullgraph=True)(t(4), GOOD, torch.zeros(1))


def test_inputs_are_not_copied_for_nothing() -> None:
    """Sums and products refuse no values."""

    def harmless(x: Tensor, count: Tensor) -> Tensor:
        try:
            count.add_(1)
            return (x * count).sum()
        except RuntimeError:
            return x

    compiled = stator.compile(harmless, backend="eager")
    compiled(t(4), torch.zeros(1))
    with torch.profiler.profile() as profile:
        compiled(t(4), torch.zeros(1))
    assert not [event for event in profile.events() if event.name == "aten::clone"]
