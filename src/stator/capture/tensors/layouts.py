"""What a program asks about a tensor whose sizes are not known: `stride()`, `is_contiguous()`.

In: a question of the program that is answered without a node. Out: the answer for this call, which
the graph checks (`graph.unknown`). How a tensor lies in memory is answered only where no unknown
size is 0 or 1: for these, kernels lay out their results each in its own way. Strides are not told
where a size that is known is 0 or 1, next to one that is not.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from stator._native._core import Frame
from stator.diagnostics.catalogue import BranchOnValues, ValueNeeded
from stator.graph.unknown.questions import Asker
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.numbers.scalars import Scalars

LAYOUT: Final = frozenset(
    {
        "stride",
        "is_contiguous",
        "is_non_overlapping_and_dense",
        "_is_view",
        "dim_order",
        "storage_offset",
        "is_set_to",
    }
)
_STRIDES: Final = frozenset({"stride", "dim_order"})
_MOST: Final = 16  # conditions on one answer


def answered(scalars: "Scalars", frame: Frame | None, compute: Callable[[], Any]) -> Any:
    """What torch answers of fake tensors; what it wants to know of unknown sizes is looked up."""
    env = scalars.tensors.graph.shape_env
    for _ in range(_MOST):
        try:
            with env.questions.by(Asker.PROGRAM):
                return compute()
        except GuardOnDataDependentSymNode as error:
            condition = env.create_symboolnode(error.cond)
        if scalars.speculation.holds(frame, condition) is None:
            raise BranchOnValues(f"an answer depends on values in tensors: {condition}")
    raise BranchOnValues("an answer depends on many values in tensors")


def check_layout(scalars: "Scalars", frame: Frame | None, name: str | None, values: Any) -> None:
    """Before the program is told how tensors lie in memory: no unknown size may be 0 or 1."""
    if name not in LAYOUT or not scalars.tensors.graph.symbols.unbacked:
        return
    for tensor in values:
        if type(tensor) is not FakeTensor:
            continue
        sizes: Any = tensor.shape
        if name in _STRIDES and _is_doubtful(tensor):
            raise ValueNeeded("how a tensor lies in memory whose size depends on values")
        for size in sizes:
            if type(size) is not torch.SymInt or size.node.has_hint():
                continue
            if size.node.maybe_as_int() is not None:
                continue
            if not answered(scalars, frame, functools.partial(_is_more_than_one, size)):
                raise ValueNeeded("how a tensor lies in memory whose size depends on values")


def _is_doubtful(tensor: torch.Tensor) -> bool:
    """Whether it has a size of 0 or 1 next to one that depends on values."""
    with DisableTorchFunction():
        sizes: Any = [*tensor.shape]
        if not any(type(size) is int and size < 2 for size in sizes):
            return False
        return any(type(size) is torch.SymInt and not size.node.has_hint() for size in sizes)


def _is_more_than_one(number: Any) -> bool:
    with DisableTorchFunction():
        return bool(number > 1)
