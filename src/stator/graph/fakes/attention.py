"""What `flex_attention` answers, on fake tensors.

In: the arguments of the operator. Out: results as it makes them, which depend on what they are
computed from, but hold no graph: torch's own rule would trace the derivative of the score function,
which backends do again.
"""

from typing import Any

import torch

from stator.graph.fakes.inputs import tensors_in
from stator.torchlib.operators import FLEX_ATTENTION


def flex_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, ...]:
    """Output, logarithm of the sums, greatest scores."""
    *_, score_buffers, _ = others
    with torch.no_grad():
        made = FLEX_ATTENTION(query, key, value, *others)
    operands = [query, key, value, *tensors_in(score_buffers)]
    if not torch.is_grad_enabled() or not any(each.requires_grad for each in operands):
        return tuple(made)
    result: tuple[torch.Tensor, ...] = FlexAttentionAutogradOp.apply(made, *operands)  # type: ignore[no-untyped-call]
    return result


class FlexAttentionAutogradOp(torch.autograd.Function):
    """Called as torch's, whose name a program may ask `grad_fn` for."""

    @staticmethod
    def forward(ctx: Any, made: tuple[torch.Tensor, ...], *operands: torch.Tensor) -> Any:
        ctx.save_for_backward(*operands)
        ctx.mark_non_differentiable(made[2])
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        needed = ctx.needs_input_grad[1:]
        pairs = zip(ctx.saved_tensors, needed, strict=True)
        return None, *(torch.empty_like(each) if need else None for each, need in pairs)
