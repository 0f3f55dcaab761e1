"""Which memory a fake tensor looks into, and how much of it.

In: a tensor of the trace. Out: a number that tensors have in common if they share memory; how far
a tensor of some sizes and strides reaches; sizes and strides that can be compared.
"""

from collections.abc import Sequence
from typing import Any

import torch


def storage_of(tensor: torch.Tensor) -> int:
    """Which memory a tensor looks into; sparse ones have none of their own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:
        return -id(tensor)


def expression(number: Any) -> Any:
    """A number, or what torch calls it: to compare these assumes nothing."""
    return number.node.expr if isinstance(number, torch.SymInt) else number


def extent(sizes: Sequence[Any], strides: Sequence[Any]) -> Any:
    """How many elements of memory lie between the first and the last of a tensor."""
    if any(size == 0 for size in sizes):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
