"""Views that autograd refuses to change in place, or differentiates by other than their base.

Stage: capture, for `Tensors`. In: results of operators, and of the graph. Out: which results of the
graph are such views, so that they are again what they are in eager when a backend has made them
(`graph/fakes/views.py`); or a `Break` at the operator that made one whose base has changed since.

Autograd notes of each view how it was made: as one of several (`split`, `unbind`), by a Function of
the program, without grad mode, in inference mode. Some of them it refuses to change, and to be used
once their base has changed. While tracing it says so itself: fake tensors have the autograd of real
ones (`graph/recording/failures.py`). A backend that makes a graph functional forgets it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx as fx

from stator._native._core import Frame
from stator.diagnostics.catalogue import TensorStateChanged
from stator.diagnostics.places import Place, stack
from stator.graph import OutputGraph, Recorded
from stator.graph.fakes.inputs import FakeInput
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.views import MODES, USUAL, MadeView, view_kind
from stator.graph.fakes.wrappers import is_wrapper
from stator.graph.passes.ancestry import computed_from
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


@dataclass(frozen=True)
class _Made:
    step: int
    places: tuple[Place, ...]


class RefusingViews:
    """Those of one trace."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}  # by storage: where the first one was made

    def note(self, frame: Frame | None, result: Any) -> None:
        """An operator was recorded."""
        if type(result) not in (tuple, list) or frame is None or frame.finished:
            return
        with DisableTorchFunction():
            for each in result:
                if isinstance(each, torch.Tensor) and view_kind(each) != USUAL:
                    made = _Made(frame.ops.steps - 1, stack(frame))
                    self._made.setdefault(storage_of(each), made)
                    return

    def among(
        self, tracer: "Tracer", recorded: Recorded, outputs: Sequence[Any]
    ) -> Iterator[MadeView]:
        """Those among the results of the graph."""
        graph = tracer.tensors.graph
        given = {id(each.fake) for each in graph.fakes.inputs}
        with DisableTorchFunction():
            for position, value in enumerate(outputs):
                if not isinstance(value, torch.Tensor) or id(value) in given:
                    continue
                kind = view_kind(value)
                if kind == USUAL:
                    continue
                known = kind in MODES and not is_wrapper(value)
                base = based_on(graph, value) if known else None
                if base is None and (kind in MODES or not value.requires_grad):
                    continue
                self._check_usable(tracer, value)
                at = None
                if base is not None:
                    values = [each.value for each in recorded.inputs]
                    at = next(i for i, each in enumerate(values) if each is base.real)
                yield MadeView(position, kind, value.requires_grad, at)

    def _check_usable(self, tracer: "Tracer", view: torch.Tensor) -> None:
        try:
            _ = view.grad_fn
        except RuntimeError:
            signal = TensorStateChanged(
                "one of several views is returned whose base has changed: it can't be used any more"
            )
            made = self._made.get(storage_of(view))
            if made is not None:
                tracer.before = made.step
                signal.places = made.places
            raise signal from None


def based_on(graph: OutputGraph, view: torch.Tensor) -> FakeInput | None:
    """The input that requires grad of which a view is made: so it can be made again."""
    base = view._base
    needed: set[fx.Node] | None = None
    for each in graph.fakes.inputs:
        fake = each.fake
        if base is None or not fake.requires_grad or not (base is fake or base is fake._base):
            continue
        same = fake.dtype is view.dtype and fake.is_conj() is view.is_conj()
        if not same or fake.is_neg() is not view.is_neg():
            continue
        if needed is None:
            needed = set(computed_from([graph.node(view)]))
        if graph.node(fake) in needed:
            return each
    return None
