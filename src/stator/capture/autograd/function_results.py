"""Results of a `torch.autograd.Function` that leave the graph or are changed, and what it keeps.

Stage: capture, for `autograd`. In: what a region has returned, and the tensors that its backward
uses without having saved them. Out: a `Break` at the call, if the caller could tell that the region
is not the program's own function: `y.grad_fn` is the `ctx` of it, with the attributes that its
forward has set and its backward will read; a view that it returns can't be changed in place; and a
backward sees what a tensor is by then.
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
    version: int | None
    what: str  # that it is changed means
    step: int
    places: tuple[Place, ...]


class Applied:
    """Those of one trace."""

    def __init__(self) -> None:
        self._results: list[_Result] = []
        self._visible: dict[int, _Result] = {}  # what shows attributes of a ctx, by id

    def note(
        self,
        frame: Frame,
        name: str,
        results: Sequence[Any],
        kept: Sequence[torch.Tensor],
        attributes: list[str],
    ) -> None:
        """A region was called."""
        step, places = frame.ops.steps - 1, stack(frame)
        with DisableTorchFunction():
            views = [each for each in results if each._is_view()]
        for each, what in (
            *((view, f"{name} returns a view, which is changed in place") for view in views),
            *((each, f"{name} keeps a tensor that is changed in place") for each in kept),
        ):
            self._results.append(_Result(each, version_unseen(each), what, step, places))
        if attributes:
            names = ", ".join(f"ctx.{each}" for each in attributes)
            what = f"{names} of {name} can be seen at the result's grad_fn"
            for each in results:
                self._visible[id(each)] = _Result(each, None, what, step, places)

    def check(self, tracer: "Tracer", outputs: Sequence[Any]) -> None:
        """At the end."""
        for each in self._results:
            if version_unseen(each.tensor) != each.version:
                _refuse(tracer, each)
        if self._visible:
            for out in tensors_in(list(outputs)):
                if id(out) in self._visible:
                    _refuse(tracer, self._visible[id(out)])


def _refuse(tracer: "Tracer", made: _Result) -> None:
    tracer.before = made.step
    signal = RegionContents(made.what)
    signal.places = made.places
    raise signal
