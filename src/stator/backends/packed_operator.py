"""Packed sequences as operators of a backend's graph, in the forward and in the backward.

In: a graph for AOTAutograd. Out: the same graph, in which `torch._pack_padded_sequence` and
`torch._pad_packed_sequence` are operators of ours, which call torch's: its own have no fake kernels
that are right (`graph/fakes/packed.py`), and read values in their derivatives, too.
"""

from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.packed import PACK, PAD
from stator.torchlib.operators import (
    PACK_PADDED_SEQUENCE,
    PACK_PADDED_SEQUENCE_BACKWARD,
    PAD_PACKED_SEQUENCE,
)

_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "FRAGMENT")  # alive as long as we are
_LIBRARY.define("pack(Tensor padded, Tensor lengths, bool batch_first) -> (Tensor, Tensor)")
_LIBRARY.define(
    "pack_backward(Tensor grad, SymInt[] sizes, Tensor batch_sizes, bool batch_first) -> Tensor"
)
_LIBRARY.define(
    "pad(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding, SymInt length) "
    "-> (Tensor, Tensor)"
)
_LIBRARY.define(
    "pad_backward(Tensor grad, Tensor lengths, bool batch_first, SymInt items) -> Tensor"
)


def as_operators(module: fx.GraphModule) -> None:
    """Changes such calls in a graph and in its regions."""
    for each in module.modules():
        if not isinstance(each, fx.GraphModule):
            continue
        changed = False
        for node in each.graph.nodes:
            operator = _OPERATORS.get(getattr(node.target, "__name__", ""))
            if node.op == "call_function" and operator is not None and not node.kwargs:
                node.target, changed = operator, True
        if changed:
            each.recompile()


# ------------------------------------------------------------------ kernels


def _pack(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    return PACK_PADDED_SEQUENCE(padded, lengths, batch_first)


def _pack_backward(
    grad: torch.Tensor, sizes: list[int], batch_sizes: torch.Tensor, batch_first: bool
) -> Any:
    return PACK_PADDED_SEQUENCE_BACKWARD(grad, sizes, batch_sizes, batch_first)


def _pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding: float, length: int
) -> Any:
    return PAD_PACKED_SEQUENCE(data, batch_sizes, batch_first, padding, length)


def _pad_backward(
    grad: torch.Tensor, lengths: torch.Tensor, batch_first: bool, items: int
) -> torch.Tensor:
    """What is no padding, in the order of packed data; what is beyond the sequences has no part."""
    found: torch.Tensor = PACK_PADDED_SEQUENCE(grad, lengths, batch_first)[0]
    if found.shape[0] == items:
        return found
    return torch.cat([found, found.new_zeros((items - found.shape[0], *found.shape[1:]))])


# ------------------------------------------------------------------ on fake tensors


def _size() -> Any:
    return _library.get_ctx().new_dynamic_size()


def _pack_fake(padded: Any, lengths: Any, batch_first: bool) -> Any:
    return padded.new_empty((_size(), *padded.shape[2:])), lengths.new_empty((_size(),))


def _pack_backward_fake(grad: Any, sizes: Any, batch_sizes: Any, batch_first: bool) -> Any:
    if not batch_first:
        return grad.new_empty(sizes)
    return grad.new_empty((sizes[1], sizes[0], *sizes[2:])).transpose(0, 1)


def _pad_fake(data: Any, batch_sizes: Any, batch_first: bool, padding: Any, length: Any) -> Any:
    count = _size()
    made = data.new_empty((length, count, *data.shape[1:]))
    return made.transpose(0, 1) if batch_first else made, batch_sizes.new_empty((count,))


def _pad_backward_fake(grad: Any, lengths: Any, batch_first: bool, items: Any) -> Any:
    return grad.new_empty((items, *grad.shape[2:]))


for _name, _kernel, _fake in (
    ("pack", _pack, _pack_fake),
    ("pack_backward", _pack_backward, _pack_backward_fake),
    ("pad", _pad, _pad_fake),
    ("pad_backward", _pad_backward, _pad_backward_fake),
):
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    _library.register_fake(f"stator::{_name}", _fake, lib=_LIBRARY)

_OPERATORS: Final[dict[str, Any]] = {
    PACK: torch.ops.stator.pack.default,
    PAD: torch.ops.stator.pad.default,
}
_PACK_BACKWARD: Final = torch.ops.stator.pack_backward.default
_PAD_BACKWARD: Final = torch.ops.stator.pad_backward.default


# ------------------------------------------------------------------ derivatives


def _keep_packed(ctx: Any, inputs: Any, output: Any) -> None:
    padded, _, ctx.batch_first = inputs
    ctx.sizes = padded.shape
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _of_packed(ctx: Any, grad: Any, _: Any) -> Any:
    (batch_sizes,) = ctx.saved_tensors
    return _PACK_BACKWARD(grad, ctx.sizes, batch_sizes, ctx.batch_first), None, None


def _keep_padded(ctx: Any, inputs: Any, output: Any) -> None:
    data, _, ctx.batch_first, *_ = inputs
    ctx.items = data.shape[0]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _of_padded(ctx: Any, grad: Any, _: Any) -> Any:
    (lengths,) = ctx.saved_tensors
    return _PAD_BACKWARD(grad, lengths, ctx.batch_first, ctx.items), None, None, None, None


_library.register_autograd("stator::pack", _of_packed, setup_context=_keep_packed, lib=_LIBRARY)
_library.register_autograd("stator::pad", _of_padded, setup_context=_keep_padded, lib=_LIBRARY)

__all__ = ["as_operators"]
