"""Results that the program has differentiated itself, which can be done once.

Stage: run time, after the graph. In: an output of the graph that does not require grad. Out: a
tensor on the same memory that does, and of whose autograd graph nothing is left but a name: to
differentiate it is an error.
"""

import functools
from importlib import import_module
from typing import Any


def spent(value: Any, grad_fn: str) -> Any:
    torch: Any = import_module("torch")  # here: this package works without
    with torch.enable_grad():
        return _named(torch, grad_fn).apply(_error(torch)(value.requires_grad_()))


@functools.cache
def _named(torch: Any, grad_fn: str) -> Any:
    """A function whose results have a grad_fn of this name."""

    def forward(_: Any, value: Any) -> Any:
        return value.detach()

    def backward(_: Any, gradient: Any) -> Any:
        return gradient

    both = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made = type(grad_fn, (torch.autograd.Function,), both)
    made._backward_cls.__name__ = grad_fn  # type: ignore[attr-defined]
    return made


@functools.cache
def _error(torch: Any) -> Any:
    """A function of torch whose results can't be differentiated, for a reason that torch tells."""
    x = torch.ones((), device="cpu", requires_grad=True)
    with torch.enable_grad():
        result = x * x
    result.backward()
    try:
        result.backward()
    except RuntimeError as error:
        autograd: Any = import_module("stator.torchlib.autograd")
        return autograd.DelayedError(str(error).encode(), 1)
    raise AssertionError("torch differentiates a second time")
