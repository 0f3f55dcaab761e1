"""Packed sequences on fake tensors: sequences of different lengths, without their padding.

In: a call of `torch._pack_padded_sequence` or `torch._pad_packed_sequence` on fake tensors, as
`torch.nn.utils.rnn` makes them. Out: fake results; a break if the call is none
of the plain ones. Their sizes depend on values: how many items there are in all sequences, how long
the longest one is, how many sequences there are. These become symbols (`unknown`), of which nothing
is taken for granted here. torch's own fake kernel for the first has other sizes than its operator,
and there is none for the second, which reads how many items there are in each step.

Lengths that torch refuses (0, or not in order) it refuses when the graph runs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from stator.diagnostics.catalogue import LengthOfValues
from stator.graph.fakes.memory import expression
from stator.graph.recording.errors import Unsupported
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.shapes import constrain_range_for_size

PACK: Final = "_pack_padded_sequence"
PAD: Final = "_pad_packed_sequence"
PACKED: Final = frozenset({PACK, PAD})


def packed_results(name: str, env: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The fake results of a plain call."""
    tensors, function, count = args[:2], *_RESULTS[name]
    if not kwargs and len(args) == count and all(map(_is_simple, tensors)):
        made = function(env, *args)
        if made is not None:
            return made
    raise Unsupported(f"{name} is called with unusual arguments", LengthOfValues)


def _is_simple(tensor: Any) -> bool:
    if type(tensor) is not FakeTensor or tensor.layout is not torch.strided:
        return False
    return tensor.device.type == "cpu" and not tensor.is_neg()


def _pack(env: Any, padded: Any, lengths: Any, batch_first: Any) -> Any:
    if padded.dim() < 2 or lengths.dim() != 1 or lengths.dtype is not torch.int64:
        return None
    if type(batch_first) is not bool or not _fit(padded, lengths, batch_first):
        return None
    items, steps = _size(env), _size(env)
    if padded.requires_grad and torch.is_grad_enabled():
        data = _Packed.apply(padded, (items, *padded.shape[2:]))
    else:
        data = padded.new_empty((items, *padded.shape[2:]))
    return data, lengths.new_empty((steps,))


def _fit(padded: Any, lengths: Any, batch_first: bool) -> bool:
    """Whether sizes are such that torch does not refuse them; open ones become guards."""
    count, longest = padded.shape[:2] if batch_first else (padded.shape[1], padded.shape[0])
    sizes = (count, longest, lengths.shape[0])
    if any(isinstance(each, torch.SymInt) and not each.node.has_hint() for each in sizes):
        return False
    return bool(count == lengths.shape[0]) and bool(count > 0) and bool(longest > 0)


def _pad(env: Any, data: Any, batch_sizes: Any, batch_first: Any, padding: Any, length: Any) -> Any:
    if data.dim() < 1 or batch_sizes.dim() != 1 or batch_sizes.dtype is not torch.int64:
        return None
    if type(batch_first) is not bool or type(padding) not in (int, float, bool):
        return None
    if not _is_length(length, batch_sizes.shape[0]):
        return None
    count = _size(env)
    sizes = (length, count, *data.shape[1:])
    if data.requires_grad and torch.is_grad_enabled():
        padded = _Padded.apply(data, sizes)
    else:
        padded = data.new_empty(sizes)
    return padded.transpose(0, 1) if batch_first else padded, batch_sizes.new_empty((count,))


def _is_length(length: Any, steps: Any) -> bool:
    """Whether the result has this length. torch refuses it if there are more steps."""
    if isinstance(length, torch.SymInt):
        own = expression(length) == expression(steps)
        return own or (length.node.has_hint() and bool(length > 0))
    return type(length) is int and length > 0


_RESULTS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {PACK: (_pack, 3), PAD: (_pad, 5)}


def _size(env: Any) -> Any:
    """A size that only a run knows."""
    size = env.create_unbacked_symint()
    constrain_range_for_size(size)
    return size


class _Made(torch.autograd.Function):
    """A new fake that is differentiable by another one."""

    @staticmethod
    def forward(ctx: Any, given: Any, sizes: Sequence[Any]) -> Any:
        ctx.given = given.shape
        return given.new_empty(sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].new_empty(ctx.given), None


def _named(grad_fn: str) -> Any:
    kind = type("Packed", (_Made,), {})
    kind._backward_cls.__name__ = grad_fn  # type: ignore[attr-defined]
    return kind


_Packed: Final = _named("PackPaddedSequenceBackward0")
_Padded: Final = _named("CopySlices")

__all__ = ["PACKED", "packed_results"]
