# mypy: ignore-errors
"""Torch's state: grad mode, inference mode, autocast, default dtype; random numbers."""

import pytest
import torch
import torch.nn.functional as F

from .harness import Change, Program, Programs, check, t

programs = Programs()


def grad():
    return (t(3, 4, grad=True),)


@programs(grad)
def no_grad(x):
    with torch.no_grad():
        y = x * 2
    return y, x * 3, torch.is_grad_enabled()


@programs(grad)
def enable_grad_inside_no_grad(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = x * 4
    return a, b, c


@programs(lambda: (t(3, grad=True), True), changes={"mode": lambda: (t(3, grad=True), False)})
def set_grad_enabled_as_context(x, on):
    with torch.set_grad_enabled(on):
        return x * 2


@programs(grad)
def set_grad_enabled_as_call(x):
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    return y, x * 3


@programs(grad, under=torch.no_grad)
def called_without_grad(x):
    y = x * 2
    with torch.enable_grad():
        return y, x * 3


@torch.no_grad()
def without(x):
    return x * 2


@torch.enable_grad()
def with_grad(x):
    return x * 3


@torch.inference_mode()
def inferred(x):
    return x * 4


@programs(grad, changes={"outside": Change(under=torch.no_grad)})
def decorated_functions(x):
    return without(x), with_grad(x), x * 5


@programs(grad)
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y, x * 3


@programs(grad)
def inference_mode_as_decorator(x):
    return inferred(x)


@programs(grad)
def inference_mode_off(x):
    with torch.inference_mode(False):
        return x * 2


@programs(lambda: (t(4, 4), t(4, 4, grad=True)))
def autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ y
        b = a + x
    return a, b, x @ y


@programs(lambda: (t(4, 4),))
def autocast_switched_off_inside(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x
        with torch.autocast("cpu", enabled=False):
            b = x @ x
    return a, b


@programs(lambda: (t(4, 4),), under=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
def called_under_autocast(x):
    return x @ x, torch.is_autocast_enabled("cpu"), F.softmax(x @ x, -1)


@torch.autocast("cpu", dtype=torch.bfloat16)
def cast(x):
    return x @ x


@programs(lambda: (t(4, 4),))
def autocast_as_decorator(x):
    return cast(x), x @ x


@programs(grad)
def nested_states(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
        return x @ x.t()


@programs(grad, raises=ValueError)
def state_is_restored_by_an_exception(x):
    with torch.no_grad():
        y = x * 2
        raise ValueError("inside no_grad")


@programs(grad)
def state_is_restored_by_a_handled_exception(x):
    try:
        with torch.no_grad():
            raise ValueError
    except ValueError:
        return x * 2, torch.is_grad_enabled()


@programs(grad)
def early_return_restores(x):
    for _ in range(2):
        with torch.no_grad():
            return x * 2


@programs(grad)
def context_manager_object_is_reused(x):
    off = torch.no_grad()
    with off:
        a = x * 2
    with off:
        b = x * 3
    return a, b, x * 4


def maybe(flag):
    return torch.no_grad() if flag else torch.enable_grad()


@programs(lambda: (t(3, grad=True), True), changes={"choice": lambda: (t(3, grad=True), False)})
def chosen_context(x, flag):
    with maybe(flag):
        return x * 2


@programs(grad)
def generator_with_state(x):
    def g():
        with torch.no_grad():
            yield x * 2

    return next(g()), x * 3


@programs(lambda: (t(3),))
def grad_mode_left_changed(x):
    torch.set_grad_enabled(False)
    return x * 2


@programs(lambda: (t(3),))
def random_numbers(x):
    return torch.rand(3) + x, torch.randn(2, 2), torch.randint(0, 9, (4,)), torch.randperm(5)


@programs(lambda: (t(3),))
def random_like(x):
    return (
        torch.rand_like(x),
        torch.randn_like(x),
        torch.empty(3).uniform_(),
        torch.empty(2).normal_(),
    )


@programs(lambda: (t(20, grad=True),))
def dropout(x):
    return F.dropout(x, 0.5), F.dropout(x, 0.5)


@programs(lambda: (t(4).softmax(0),))
def sampling(p):
    return (
        torch.multinomial(p, 2),
        torch.bernoulli(p),
        torch.normal(p, 1.0),
        torch.distributions.Normal(p, 1.0, validate_args=False).sample(),
    )


@programs(lambda: (t(3),), dead=True)
def unused_random_numbers_advance_the_state(x):
    torch.rand(3)
    return x + torch.rand(3)


@programs(lambda: (t(3),))
def random_numbers_in_order(x):
    a = torch.rand(2)
    b = torch.randn(2)
    return b, a, x + torch.rand(3)


@programs(lambda: (t(30, 4),), changes={"probability": lambda: (t(30, 4), 0.9)})
def random_mask(x, p=0.2):
    keep = torch.rand_like(x) > p
    return x * keep / (1 - p)


@programs(grad)
def queries(x):
    return (
        x * 2,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
    )


@programs(grad, under=torch.inference_mode)
def called_in_inference_mode(x):
    return x * 2, torch.is_inference_mode_enabled()


@programs(grad)
def detached_parts(x):
    y = (x * 2).detach()
    z = x * y
    return z, z.detach().requires_grad_()


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
