"""Operators as objects, and operators whose names are private."""

from typing import Final

import torch
from torch.fx.node import has_side_effect

from .door import needed, optional

with needed("an operator: `torch.ops.aten.add.Tensor`"):
    from torch._ops import OpOverload
with needed("all operators of a name: `torch.ops.aten.add`"):
    from torch._ops import OpOverloadPacket
with needed("all names of a library: `torch.ops.aten`"):
    from torch._ops import _OpNamespace as OpNamespace
with needed("operators that take functions"):
    from torch._ops import HigherOrderOperator
with needed("the functions behind `torch.relu` and so on"):
    from torch._C import _VariableFunctions as VariableFunctions
with needed("recognises what `F.linear` is"):
    from torch._C._nn import linear
with needed("the leaf behind `F.pad`"):
    from torch._C._nn import pad
with needed("recognises the old classes such as `torch.FloatTensor`"):
    from torch import _tensor_classes as tensor_classes
with needed("a check of values, which programs call"):
    from torch import _assert_async as assert_async
with needed("what a program states about sizes"):
    from torch import _check as check
with needed("what a program states about values"):
    from torch import _check_tensor_all_with as check_tensor_all_with
with needed("steps of optimizers, recognised"):
    from torch import _foreach_add_ as foreach_add_
with needed("the same"):
    from torch import _foreach_addcdiv_ as foreach_addcdiv_
with needed("the same"):
    from torch import _foreach_div as foreach_div
with needed("the same"):
    from torch import _foreach_mul as foreach_mul
with needed("copies of all inputs of a CUDA graph in one kernel"):
    from torch import _foreach_copy_ as foreach_copy_
with needed("the logarithm of a number that is not known"):
    from torch import _sym_log2 as sym_log2  # type: ignore[attr-defined, unused-ignore]
with needed("tensors whose elements share memory"):
    from torch import _debug_has_internal_overlap as has_internal_overlap
with needed("checks in a graph"):
    ASSERT_ASYNC = torch.ops.aten._assert_async.default
    ASSERT_ASYNC_MESSAGE = torch.ops.aten._assert_async.msg
    ASSERT_SCALAR = torch.ops.aten._assert_scalar.default
with needed("calls of graphs in a graph, which a backend compiles once"):
    INVOKE_SUBGRAPH = torch.ops.higher_order.invoke_subgraph
with needed("packed sequences"):
    PACK_PADDED_SEQUENCE = torch.ops.aten._pack_padded_sequence.default
    PACK_PADDED_SEQUENCE_BACKWARD = torch.ops.aten._pack_padded_sequence_backward.default
    PAD_PACKED_SEQUENCE = torch.ops.aten._pad_packed_sequence.default
with needed("the operator behind `torch.cond`"):
    COND = torch.ops.higher_order.cond
with needed("the operator behind `flex_attention`"):
    FLEX_ATTENTION = torch.ops.higher_order.flex_attention
with needed("operators that run a function over and over"):
    ASSOCIATIVE_SCAN = torch.ops.higher_order.associative_scan
    MAP = torch.ops.higher_order.map_impl
    SCAN = torch.ops.higher_order.scan
    WHILE_LOOP = torch.ops.higher_order.while_loop

_AS_RECORDED: Final = "a backend may choose another order than the one of the graph"
_register_effectful: Final = optional(
    "torch._higher_order_ops.effects._register_effectful_op",
    "operators that do something, in order",
    _AS_RECORDED,
)
_EffectType: Final = optional(
    "torch._higher_order_ops.effects._EffectType", "which order that is", _AS_RECORDED
)


def keep_in_order(operator: OpOverload) -> None:
    """Says of an operator that it is called for what it does, and in order."""
    if _register_effectful is not None and _EffectType is not None:
        _register_effectful(operator, _EffectType.ORDERED)
    has_side_effect(operator)
