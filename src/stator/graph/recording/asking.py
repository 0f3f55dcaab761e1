"""Calls about which eager is asked, since fake kernels let them pass.

In: an operation that fakes have carried out. Out: nothing, or the error that eager raises; where
that may depend on open sizes, `Unsupported`.
"""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from stator.diagnostics.catalogue import SharedMemory, TensorStateChanged
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.overlaps import Answer, Overlap, is_elementwise, is_in_place
from stator.graph.fakes.resizing import Outs
from stator.graph.leaves.uncounted_lists import changed_lists
from stator.graph.recording.errors import OperatorError, RecordingError, Unsupported
from stator.graph.recording.failures import refusal_of_nothing
from stator.graph.recording.operations import Operation, operation_of
from stator.graph.unknown.scalars import forget
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.graph.recording.output import OutputGraph


def ask_of_nothing(
    graph: "OutputGraph",
    operation: Operation,
    operands: Sequence[torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Raises what eager does, if it refuses tensors without values that a fake kernel takes."""
    refusal = refusal_of_nothing(operation.run, operation.torchs, args, kwargs)
    if refusal is None:
        return
    forget(graph.shape_env, operands)
    if graph.symbols:  # it may depend on them, and nobody has asked about their values
        text = f"{operation.shown} refuses an empty tensor, which may depend on open sizes"
        raise Unsupported(text)
    raise refusal


def ask_of_outs(
    graph: "OutputGraph", operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuses an operator that resizes `out=` arguments where its fake kernel does not."""
    target: Any = operation.target
    outs = Outs.of(target, kwargs)
    if outs is None:
        return
    wanted = None
    if outs.twin is not None:
        left = {name: value for name, value in kwargs.items() if name not in outs.names}
        wanted = list(tensors_in(graph.run(operation_of(outs.twin), args, left)))
    if wanted is None or not outs.fit(wanted, kwargs):
        forget(graph.shape_env, tensors_in((args, kwargs)))
        text = f"{operation.shown} gives its arguments another size"
        raise Unsupported(text, TensorStateChanged)


def ask_of_overlap(
    graph: "OutputGraph",
    overlap: Overlap,
    written: Sequence[torch.Tensor],
    operation: Operation,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Raises what eager does, if it refuses to write to memory that the call also reads."""
    name = operation.name
    with DisableTorchFunction():
        if not operation.torchs:
            found: Answer | OperatorError = Answer.MIXED
        elif name in ("setitem", "__setitem__"):
            found = overlap.answer_of_items(operation.run, args, _part(graph, *args[:2]))
        else:
            lists = changed_lists(name, args, kwargs)
            even = is_elementwise(name) or is_in_place(name, args, kwargs)
            found = overlap.answer(operation.run, args, kwargs, written, lists, elementwise=even)
    if found is Answer.FINE:
        return
    forget(graph.shape_env, tensors_in((args, kwargs)))
    if found is Answer.MIXED or graph.symbols:  # it may depend on open sizes, as above
        text = f"{operation.shown} writes to memory that it also reads"
        raise Unsupported(text, SharedMemory)
    raise found


def _part(graph: "OutputGraph", tensor: torch.Tensor, key: Any) -> torch.Tensor | None:
    """The part of a tensor that an assignment to items writes to, if it is a view."""
    if key is Ellipsis:
        return tensor
    try:
        part = graph.run(operation_of(operator.getitem), (tensor, key), {})
    except RecordingError:
        return None
    shared = isinstance(part, torch.Tensor) and storage_of(part) == storage_of(tensor)
    if not shared:
        forget(graph.shape_env, [tensor])
    return part if shared else None
