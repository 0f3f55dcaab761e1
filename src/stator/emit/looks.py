"""Tensors that are shown as they were in the program.

Stage: run time, after the graph. In: an output of the graph, and what the program's tensor looked
like. Out: a tensor whose text is eager's. A compiled graph's outputs have the right values, but the
grad_fn of the compiled graph.
"""

import functools
from importlib import import_module
from typing import Any


def shown(value: Any, grad_fn: str | None, requires_grad: bool, parameter: bool) -> Any:
    """A tensor with these values and these looks; nobody differentiates through it."""
    torch: Any = import_module("torch")  # here: this package works without
    value = value.detach()
    if parameter:
        return torch.nn.Parameter(value, requires_grad)
    if grad_fn is None:
        return value.requires_grad_(requires_grad)
    with torch.enable_grad():
        return _showing(torch, grad_fn).apply(value.requires_grad_())


@functools.cache
def _showing(torch: Any, grad_fn: str) -> Any:
    """A function whose results name this grad_fn."""

    def forward(_: Any, value: Any) -> Any:
        return value.view_as(value)

    made = type(grad_fn, (torch.autograd.Function,), {"forward": staticmethod(forward)})
    made._backward_cls.__name__ = grad_fn  # type: ignore[attr-defined]
    return made
