"""A traced `torch.autograd.Function`: what stands for its `ctx`, and the module that a graph calls.

Stage: capture, for `autograd_functions`. In: graphs of what leads to the results, and of the
gradients. Out: a module whose results have a `grad_fn` of the program's name.

The forward's own operations are in the graph, before the call of the module: its results go
through it, and get their gradient there. Inside of a transform of torch.func, the module has them.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.fx as fx
from torch.autograd.function import once_differentiable

from stator.capture.autograd import functions_in_transforms
from stator.torchlib.transforms import are_transforms_active


class Context:
    """What a traced `forward` and `backward` get as `ctx`. Its methods are evaluated."""

    def __init__(self, needs_input_grad: tuple[bool, ...] | None, name: str) -> None:
        if needs_input_grad is not None:  # each level of a transform has an answer of its own
            self.needs_input_grad = needs_input_grad
        self._name = name
        self._saved: tuple[Any, ...] = ()
        self._not_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    def save_for_backward(self, *tensors: Any) -> None:
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """For derivatives in forward mode, which nothing in a graph has."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._not_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self._materialize = value

    def __getattr__(self, name: str) -> Any:
        missing(name)
        raise AttributeError(f"{self._name!r} object has no attribute {name!r}")


OWN: Final = frozenset(Context((), "").__dict__)  # what is no attribute of the program's


def missing(name: str) -> None:
    """Evaluating this asks whether a real `ctx` has an attribute."""


@dataclass(frozen=True)
class Results:
    """What is special about some results, by position."""

    not_differentiable: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()
    """Made by the forward, before the region: the same tensor is a result, and no view of it."""
    changed: tuple[int, ...] = ()
    """Given to the function, which has changed them in place and says so."""


class _Apply(torch.autograd.Function):
    """Runs a region's graphs; the gradient of what the region was given comes from the second."""

    @staticmethod
    def forward(ctx: Any, region: "FunctionRegion", *inputs: Any) -> Any:
        outputs, saved, shown = region.forward_graph(*inputs)
        outputs = list(outputs)
        said = region.results
        renewed: dict[int, Any] = {}
        ctx.mark_dirty(*(outputs[i] for i in said.changed))
        for i in said.fresh:
            before = outputs[i]
            if type(before) is torch.Tensor:  # with the version that a new result has
                outputs[i] = renewed[id(before)] = before.data
            else:  # what traces this wants to see the same tensor
                ctx.mark_dirty(*(outputs[i] for i in (*said.changed, *said.fresh)))
                break
        ctx.region = region
        kept = [renewed.get(id(value), value) for value in saved]
        ctx.save_for_backward(*(value for value in kept if isinstance(value, torch.Tensor)))
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in kept]
        ctx.mark_non_differentiable(*(outputs[i] for i in said.not_differentiable))
        for (name, kind), value in zip(region.attributes.items(), shown, strict=True):
            value = torch.Size(value) if kind is torch.Size else value
            setattr(ctx, name, renewed.get(id(value), value))
        ctx.shown = [getattr(ctx, name) for name in region.attributes]
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        for name, value in zip(ctx.region.attributes, ctx.shown, strict=True):
            if getattr(ctx, name) is not value:
                what = f"ctx.{name} of {ctx.region.name} was changed by way of a grad_fn"
                raise RuntimeError(f"{what}, and the backward was captured before")
        tensors = iter(ctx.saved_tensors)
        saved = (next(tensors) if number is None else number for number in ctx.numbers)
        return None, *ctx.region.gradients(gradients, saved)


class _ApplyOnce(_Apply):
    """The same, if gradients of the gradient are refused."""

    backward: Any = staticmethod(once_differentiable(_Apply.backward))


# What `once_differentiable` makes of a backward has this code.
ONCE: Final = once_differentiable(_Apply.backward).__code__


class FunctionRegion(torch.nn.Module):
    """A traced `torch.autograd.Function`: outputs and what is saved; gradients of the inputs."""

    def __init__(
        self,
        forward: fx.GraphModule,
        backward: fx.GraphModule,
        results: Results,
        name: str,
        once: bool,
        places: list[Any] | None,
        attributes: dict[str, type],
        orders: list[tuple[int, ...]] | None,
    ) -> None:
        super().__init__()
        self.forward_graph = forward
        self.backward_graph = backward
        self.results = results
        self.name = name
        self.once = once
        self.places = places  # where what is saved is found, inside of a transform
        self.attributes = attributes  # of the ctx, which is the `grad_fn` of the results
        self.orders = orders  # of the dimensions of gradients, outermost first, if that matters

    def forward(self, *inputs: Any) -> Any:
        if self.places is not None and are_transforms_active():
            return functions_in_transforms.applied(self, self.places, inputs)
        return _applied(self.name, self.once).apply(self, *inputs)

    def gradients(self, given: Sequence[Any], saved: Iterable[Any]) -> Any:
        """Those of the inputs, of those of the results and what was saved."""
        if self.orders is not None:
            given = [_laid(each, order) for each, order in zip(given, self.orders, strict=True)]
        return self.backward_graph(*given, *saved)


def _laid(gradient: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The gradient, as it lies in memory where the backward was captured."""
    gradient = gradient.resolve_conj().resolve_neg()
    if order == tuple(range(len(order))):
        return gradient.contiguous()
    back = sorted(range(len(order)), key=order.__getitem__)
    return gradient.permute(order).contiguous().permute(back)


@functools.cache
def _applied(name: str, once: bool) -> Any:
    """A function of the program's name: messages and `grad_fn` tell it."""
    return type(name, (_ApplyOnce if once else _Apply,), {})
