"""Results of a `torch.autograd.Function` that leave the graph, or are changed in it.

Stage: capture, for `autograd`. In: what a region has returned. Out: a `Break` at the call, if the
caller could tell that the region is not the program's own function: `y.grad_fn` is the `ctx` of it,
with the attributes that its forward has set and its backward will read; and a view that it returns
can't be changed in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from stator._native._core import Frame
from stator.diagnostics.catalogue import RegionContents
from stator.diagnostics.places import Place, stack
from stator.graph.fakes.inputs import tensors_in, version_unseen
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


@dataclass(frozen=True)
class _Result:
    tensor: torch.Tensor
    version: int | None  # of a view
    attributes: tuple[str, ...]  # of the ctx
    name: str
    step: int
    places: tuple[Place, ...]


class Applied:
    """Those of one trace."""

    def __init__(self) -> None:
        self._results: dict[int, _Result] = {}

    def note(self, frame: Frame, name: str, results: Sequence[Any], attributes: list[str]) -> None:
        """A region was called."""
        with DisableTorchFunction():
            for each in results:
                version = version_unseen(each) if each._is_view() else None
                step, places = frame.ops.steps - 1, stack(frame)
                made = _Result(each, version, tuple(attributes), name, step, places)
                self._results[id(each)] = made

    def check(self, tracer: "Tracer", outputs: Sequence[Any]) -> None:
        """At the end."""
        if not self._results:
            return
        for each in self._results.values():
            if each.version is not None and version_unseen(each.tensor) != each.version:
                _refuse(tracer, each, f"{each.name} returns a view, which is changed in place")
        for out in tensors_in(list(outputs)):
            made = self._results.get(id(out))
            if made is not None and made.attributes:
                names = ", ".join(f"ctx.{name}" for name in made.attributes)
                _refuse(tracer, made, f"{names} of {made.name} can be seen at the result's grad_fn")


def _refuse(tracer: "Tracer", made: _Result, reason: str) -> None:
    tracer.before = made.step
    signal = RegionContents(reason)
    signal.places = made.places
    raise signal
