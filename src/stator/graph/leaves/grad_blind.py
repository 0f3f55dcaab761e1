"""What does not look at whether a tensor requires grad, while grad mode is off.

In: a node, a question to a tensor. Out: yes or no. Only what is listed is blind. Left out on
purpose: views (they may take `requires_grad` over from their base), what changes tensors, `matmul`
(it folds dimensions if the smaller operand requires grad, in any mode), what may answer with the
tensor itself (`dropout`, `contiguous`, `to`), recurrent layers and attention (they choose kernels).
"""

import operator
from typing import Any, Final

import torch
import torch.fx as fx
from torch.nn import functional

from stator.graph.leaves import leaf_tables as tables
from stator.graph.leaves.leaves import tensor_method
from stator.torchlib.operators import linear

_FUNCTIONS: Final = frozenset(
    {
        operator.add,
        operator.mul,
        operator.sub,
        operator.truediv,
        torch.add,
        torch.addmm,
        torch.conv1d,
        torch.conv2d,
        torch.conv3d,
        torch.conv_transpose1d,
        torch.conv_transpose2d,
        torch.conv_transpose3d,
        torch.div,
        torch.mul,
        torch.sub,
        linear,
        functional.embedding,
        functional.group_norm,
        functional.layer_norm,
    }
)
_METHODS: Final = frozenset({"add", "addmm", "div", "mul", "sub"})
_ATTRIBUTES: Final = {*tables.CONSTANT_ATTRIBUTES, "__class__"} - {
    *("name", "output_nr", "requires_grad", "retains_grad")
}


def is_blind(node: fx.Node) -> bool:
    """Whether a node computes the same if one of its inputs requires grad or not."""
    if node.op == "call_method":
        return node.target in _METHODS
    return node.op == "call_function" and node.target in _FUNCTIONS


def is_blind_attribute(name: str) -> bool:
    """Whether an attribute of a tensor tells nothing about gradients."""
    return name in _ATTRIBUTES


def is_blind_question(function: Any) -> bool:
    """Whether a function that is answered while tracing tells nothing about gradients."""
    return tensor_method(function) in tables.CONSTANT_METHODS
