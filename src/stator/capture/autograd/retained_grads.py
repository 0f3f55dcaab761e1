"""`Tensor.retain_grad()` of intermediate results.

Stage: capture, for `Gradients`. In: a tensor of the trace, and later what is differentiated. Out:
its gradient among the others, and its `grad`; or a `Break` at the call, if the program's caller
gets the tensor and could differentiate through it: a backend with an autograd of its own has other
intermediate results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import history, user_call
from stator.diagnostics.catalogue import AutogradInside
from stator.diagnostics.places import Place, stack

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors
    from stator.capture.trace.tracer import Tracer

_KEPT = "Tensor.retain_grad: the gradient of an intermediate result is kept"


@dataclass(frozen=True)
class _Kept:
    tensor: torch.Tensor
    history: Any
    step: int
    places: tuple[Place, ...]


class Retained:
    """Those of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._kept: dict[int, _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._kept

    def keep(self, frame: Frame | None, tensor: torch.Tensor) -> None:
        if id(tensor) in self._tensors.inputs or frame is None:
            raise AutogradInside(f"{_KEPT}, which was made before the call")
        user_call(tensor.retain_grad)
        kept = _Kept(tensor, history(tensor), frame.ops.steps - 1, stack(frame))
        self._kept.setdefault(id(tensor), kept)

    def among(self, steps: set[Any]) -> list[torch.Tensor]:
        """The tensors whose gradients come by when these nodes of autograd run."""
        for each in self._kept.values():
            if history(each.tensor) is not each.history:
                raise AutogradInside(f"{_KEPT}, which was changed in place since")
        return [each.tensor for each in self._kept.values() if each.history in steps]

    def add(self, frame: Frame | None, tensor: torch.Tensor, gradient: torch.Tensor) -> None:
        """Its gradient has come by: never in place, and never the tensor itself."""
        own, record = self._tensors.own, self._tensors.record
        old = own.grad(tensor)
        made: torch.Tensor
        if old is None:
            options = {"memory_format": torch.contiguous_format}
            made = record(frame, ("method", "clone"), (gradient,), options)
        else:
            made = record(frame, torch.add, (old, gradient))
        own.set_grad(frame, tensor, made)

    def check(self, tracer: "Tracer", outputs: Sequence[Any]) -> None:
        """At the end: who gets one must not be able to differentiate through it."""
        for out in outputs:
            if id(out) in self._kept:
                kept = self._kept[id(out)]
                tracer.before = kept.step
                used = tracer.tensors.own.is_behind_others(kept.tensor)
                signal = AutogradInside(f"{_KEPT}, for the caller", whole=used)
                signal.places = kept.places
                raise signal
