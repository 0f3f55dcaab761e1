"""Where the kernels of Fourier transforms put their results: torch's fake ones say it from 2.13 on.

In: an operator's arguments, and the result of its fake kernel. Out: the strides that the kernel of
the CPU gives it. The kernel puts the dimensions that it does not transform first, those with large
strides before others, and computes a contiguous result for that order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from stator.torchlib.versions import TRANSFORMS_UNPLACED


def complex_strides(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """Of `_fft_c2c`, which goes through the dimensions in the order in which they lie."""
    given, dims = args[:2]
    return _strides(given.stride(), made.shape, _by_stride(given.stride(), dims))


def half_strides(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """Of `_fft_r2c`, which halves the last one."""
    given, dims = args[:2]
    order = [*_by_stride(given.stride(), dims[:-1]), dims[-1]]
    return _strides(given.stride(), made.shape, order)


def real_strides(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """Of `_fft_c2r`: a complex transform of all dimensions but the last, then that one."""
    given, dims = args[:2]
    strides = given.stride()
    if len(dims) > 1:
        strides = _strides(strides, given.shape, _by_stride(strides, dims[:-1]))
    return _strides(strides, made.shape, [dims[-1]])


def _by_stride(strides: Sequence[Any], dims: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda dim: strides[dim], reverse=True)


def _strides(strides: Sequence[Any], shape: Sequence[Any], transformed: list[int]) -> Any:
    found, step = [0] * len(shape), 1
    others = _by_stride(strides, _partitioned(len(shape), transformed))
    for dim in reversed((*others, *transformed)):
        found[dim] = step
        step *= max(shape[dim], 1)
    return tuple(found)


def _partitioned(count: int, transformed: Sequence[int]) -> list[int]:
    """The other dimensions, in the order in which `std::partition` leaves them.

    It swaps the first that does not belong there with the last that does.
    """
    order, first, last = list(range(count)), 0, count - 1
    while True:
        while first <= last and order[first] not in transformed:
            first += 1
        while first <= last and order[last] in transformed:
            last -= 1
        if first > last:
            return order[:first]
        order[first], order[last] = order[last], order[first]


RULES = (
    {complex_strides: ("_fft_c2c",), half_strides: ("_fft_r2c",), real_strides: ("_fft_c2r",)}
    if TRANSFORMS_UNPLACED
    else {}
)
