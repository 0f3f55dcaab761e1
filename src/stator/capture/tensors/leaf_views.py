"""Views of tensors that require grad, made in another grad mode than that of the call.

Stage: capture, for `Tensors`. In: results of operators. Out: a `Break` at the operator that made
such a view, if the caller could tell that a backend has differentiated the graph.

In eager, a view that is made without grad mode requires grad and has no `grad_fn`: it is a leaf,
and no gradient reaches it or its base. AOTAutograd makes views among the results again, from their
bases, in the grad mode of the call: then there is a gradient, or there is none where eager has one.
And a result that depends on such leaves alone does not require grad any more. A view that is all
that is left of its memory, such as the result of `linear`, is not made again. One of an input
that is made without grad mode is made again so (`refusing_views`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import Paths, history
from stator.capture.tensors.refusing_views import based_on
from stator.diagnostics.catalogue import TensorStateChanged
from stator.diagnostics.places import Place, stack
from stator.graph import OutputGraph
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.views import MODES, view_kind
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


@dataclass(frozen=True)
class _Made:
    view: torch.Tensor
    step: int
    places: tuple[Place, ...]


class LeafViews:
    """Those of one trace."""

    def __init__(self) -> None:
        self.mode = torch.is_grad_enabled()
        self._made: dict[int, _Made] = {}

    def note(self, frame: Frame | None, result: Any) -> None:
        """An operator was recorded, in another mode than the one of the beginning."""
        if frame is None or frame.finished:
            return
        with DisableTorchFunction():
            views = [each for each in tensors_in(result) if each.requires_grad and each._is_view()]
        for tensor in views:
            made = _Made(tensor, frame.ops.steps - 1, stack(frame))
            self._made.setdefault(id(tensor), made)

    def check(self, tracer: "Tracer", outputs: Sequence[Any]) -> None:
        """At the end: nobody may see one, or depend on nothing else."""
        if not self._made:
            return
        paths = Paths()
        results = list(tensors_in(list(outputs)))
        memory = [storage_of(each) for each in results]
        graph = tracer.tensors.graph
        given = {storage_of(each) for each in graph.fakes.given_memory()}
        for out, own in zip(results, memory, strict=True):
            alone = not self.mode and memory.count(own) == 1 and own not in given
            if id(out) in self._made and not alone and not _is_made_again(graph, out):
                _refuse(tracer, self._made[id(out)])
            start = history(out)
            if self.mode and start is not None and not paths.leaves(start):
                _refuse(tracer, next(iter(self._made.values())))


def _is_made_again(graph: OutputGraph, view: torch.Tensor) -> bool:
    with DisableTorchFunction():
        return view_kind(view) in MODES and based_on(graph, view) is not None


def _refuse(tracer: "Tracer", made: _Made) -> None:
    tracer.before = made.step
    signal = TensorStateChanged(
        "a view of a tensor that requires grad is made in another grad mode than that of the call"
    )
    signal.places = made.places
    raise signal
