"""Operators that write to memory which they also read.

In: the tensors of a call, before it runs on fakes, and whether it has written to one. Out: eager's
refusal, if it has one. Real kernels refuse many a partial overlap; fake ones don't look, and
backends that make the graph functional compute something. So eager is asked, with real tensors of
zeros that lie in memory as the fakes do. Where it does not refuse, what it computes depends on the
order in which a kernel goes through its elements: that is for eager alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from stator.torchlib.tensors import DisableTorchFunction

from .errors import OperatorError
from .memory import extent, storage_of
from .purity import is_torch_function
from .replay import LARGEST, NotReplayableError, eager_error, hint, is_replayable

_REFUSED: Final = "single memory location"  # any other error may be about the zeros


class _Place(NamedTuple):
    tensor: torch.Tensor
    storage: int
    bytes: int
    size: list[int]
    stride: list[int]
    offset: int

    @property
    def lies(self) -> tuple[Any, ...]:
        return self.storage, self.offset, self.size, self.stride

    @property
    def ends(self) -> int:
        return int(self.offset + extent(self.size, self.stride))

    def meets(self, other: "_Place") -> bool:
        """Whether the two lie in the same part of memory, gaps included."""
        if self.storage != other.storage or 0 in self.size or 0 in other.size:
            return False
        own, others = self.tensor.itemsize, other.tensor.itemsize
        return self.offset * own < other.ends * others and other.offset * others < self.ends * own


class Overlap:
    """Operands of one call that share memory, as they lie before it: `out=` may change shapes."""

    def __init__(self, places: Sequence[_Place]) -> None:
        self._places = places
        self.asked = True
        """Whether eager could be asked: its answer is known."""

    def refusal(
        self,
        run: Callable[[tuple[Any, ...], dict[str, Any]], object],
        function: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> OperatorError | None:
        """What eager says to such a call, if it refuses the overlap; None for a tensor method."""
        if function is not None and not is_torch_function(function):
            return None
        with DisableTorchFunction(), torch.no_grad():
            error = eager_error(run, args, kwargs, self._twins())
            self.asked = error is not None or is_replayable(args, kwargs, self._twins())
        return OperatorError(error) if error is not None and _REFUSED in str(error) else None

    @property
    def is_one(self) -> bool:
        """Whether all are the same elements, in the same order: nobody refuses that."""
        first = self._places[0].lies
        return all(each.lies == first and not _repeats(each.tensor) for each in self._places)

    def mixes(self, written: Sequence[torch.Tensor]) -> bool:
        """Whether elements that are written are also read, as other elements."""
        with DisableTorchFunction(), torch.no_grad():
            return any(
                self._reads(place)
                for place in self._places
                if any(place.tensor is each for each in written)
            )

    def _reads(self, place: _Place) -> bool:
        """Whether another operand has elements of this one, but not all, or in another order."""
        others = [each for each in self._places if each.meets(place) and each.lies != place.lies]
        if not others:
            return False
        twins = self._twins()
        twins[id(place.tensor)].fill_(1)
        return any(bool(twins[id(each.tensor)].any()) for each in others)

    def _twins(self) -> dict[int, torch.Tensor]:
        memory = {each.storage: each.bytes for each in self._places}
        first = self._places[0].tensor.device
        real = {
            storage: torch.zeros(size, dtype=torch.uint8, device=first).untyped_storage()
            for storage, size in memory.items()
        }
        return {
            id(each.tensor): torch.empty(0, dtype=each.tensor.dtype, device=first).set_(
                real[each.storage], each.offset, each.size, each.stride
            )
            for each in self._places
        }


def overlap_of(operands: Sequence[torch.Tensor]) -> Overlap | None:
    """The operands that share memory with others, or elements with each other; None if none do."""
    try:
        storages = [storage_of(each) for each in operands]
        places = [
            _place(tensor, storage)
            for tensor, storage in zip(operands, storages, strict=True)
            if storages.count(storage) > 1 or _repeats(tensor)
        ]
    except (NotReplayableError, NotImplementedError, RuntimeError):
        return None
    return Overlap(places) if places else None


def _repeats(tensor: torch.Tensor) -> bool:
    """Whether elements are one, as after `expand`; a stride that is open is not asked."""
    return any(type(step) is int and step == 0 for step in tensor.stride())


def _place(tensor: torch.Tensor, storage: int) -> _Place:
    size, stride = [hint(n) for n in tensor.shape], [hint(n) for n in tensor.stride()]
    bytes_ = hint(tensor.untyped_storage().nbytes())
    if bytes_ > LARGEST or tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotReplayableError
    return _Place(tensor, storage, bytes_, size, stride, hint(tensor.storage_offset()))
