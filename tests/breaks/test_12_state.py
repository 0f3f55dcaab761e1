"""Torch's state behind a break: not asked for again where nothing can have changed it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import stator
from stator.driver.steady import is_steady


@torch.library.custom_op("stator_state_test::flip", mutates_args=())
def flip(x: Tensor) -> Tensor:
    torch.set_grad_enabled(not torch.is_grad_enabled())
    return x.clone()


@flip.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def grad_mode() -> Iterator[None]:
    with torch.enable_grad():
        yield
    stator.reset()


def outside() -> None:
    """Not captured; changes the state."""
    torch.set_grad_enabled(not torch.is_grad_enabled())


outside = stator.disable(outside)


def nothing(x: Tensor) -> Tensor:
    x = x * 2
    stator.graph_break()
    x = x * 3
    stator.graph_break()
    return x * 4


def in_the_graph(x: Tensor) -> Tensor:
    x = x * 2
    torch.set_grad_enabled(not torch.is_grad_enabled())
    stator.graph_break()
    return x * 3


def by_a_custom_operator(x: Tensor) -> Tensor:
    x = flip(x * 2)
    stator.graph_break()
    return x * 3


def by_a_call(x: Tensor) -> Tensor:
    x = x * 2
    outside()
    return x * 3


def by_a_branch_and_a_call(x: Tensor) -> Tensor:
    x = x * 2
    if x.sum() > 0:
        outside()
        return x * 3
    stator.graph_break()
    return x * 4


def for_a_while(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
        stator.graph_break()
        y = y * 3
    stator.graph_break()
    return x * y


def of_autocast(x: Tensor) -> Tensor:
    y = torch.mm(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        stator.graph_break()
        y = torch.mm(y, y)
    stator.graph_break()
    return torch.mm(y, y)


def of_the_default(x: Tensor) -> Tensor:
    x = x * 2
    torch.set_default_dtype(torch.float64)
    stator.graph_break()
    x = x + torch.ones(2)
    torch.set_default_dtype(torch.float32)
    stator.graph_break()
    return x + torch.ones(2)


PROGRAMS: list[Callable[[Tensor], Tensor]] = [
    nothing,
    in_the_graph,
    by_a_custom_operator,
    by_a_call,
    by_a_branch_and_a_call,
    for_a_while,
    of_autocast,
    of_the_default,
]


def outcome(fn: Callable[[Tensor], Tensor], x: Tensor, grad: bool) -> tuple[Any, ...]:
    with torch.set_grad_enabled(grad):
        result = fn(x)
        return result.detach().clone(), result.dtype, result.requires_grad, torch.is_grad_enabled()


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_the_state_is_as_in_eager(fn: Callable[[Tensor], Tensor]) -> None:
    compiled = stator.compile(fn, backend="eager")
    for grad in (True, False, True, True, False, False, True):
        for sign in (1, -1):
            x = (torch.arange(4.0).reshape(2, 2) * sign).requires_grad_()
            expected, actual = outcome(fn, x, grad), outcome(compiled, x, grad)
            assert torch.equal(actual[0], expected[0])
            assert actual[1:] == expected[1:]


def test_only_what_runs_nothing_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A break as such and a branch on a tensor are; a call, and a state that changes, are not."""
    found: list[bool] = []

    def recorded(trace: Any) -> bool:
        answer = is_steady(trace)
        if trace.suspension is not None:
            found.append(answer)
        return answer

    def steady(fn: Callable[..., Any]) -> list[bool]:
        found.clear()
        compiled = stator.compile(fn, backend="eager")
        for sign in (1, -1, 1):
            compiled(torch.ones(2, 2) * sign)
        return list(found)

    def branching(x: Tensor) -> Tensor:
        log: list[int] = []
        x = x * 2
        if x.sum() > 0:
            log.append(1)
            return x * 3
        return x * 4

    monkeypatch.setattr("stator.driver.entries.is_steady", recorded)
    assert steady(nothing) == [True, True]
    assert steady(branching) == [True]
    assert not any(steady(by_a_call))
    assert steady(in_the_graph)[0] is False
    assert steady(by_a_custom_operator)[0] is False
