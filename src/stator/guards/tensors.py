"""Guards on tensors; those on torch's global state come with them.

Stage: guards; with `state`, the only part of them that needs torch. In: example tensors. Out:
checks for the native tree.

The native side reads tensors without torch's headers. At the first use it is calibrated here on a
few tensors whose answers are known; when anything disagrees, `matches` below is called instead,
which is slower and means the same. `STATOR_TENSOR_GUARDS` forces that for tests: `attributes`, or
what to pretend is missing (`impl`, `keys`, `functions`, `agreement`, `words`).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from stator._native import _core
from stator.torchlib.autograd import swap_tensor_impl
from stator.torchlib.modes import DispatchKey, DispatchKeySet, disable_current_modes, dispatch_keys
from stator.torchlib.tensors import DisableTorchFunction, TensorBase
from stator.torchlib.versions import SWAPS_KNOWN

from .checks import Check, Reader, tests
from .sources import Source
from .state import STATES, TorchState, torch_state_guards
from .text import show

__all__ = [
    "STATES",
    "NoOverlap",
    "TensorMatch",
    "TorchState",
    "calibrate",
    "matches",
    "tensor_match",
    "torch_state_guards",
]

ENVIRONMENT: Final = "STATOR_TENSOR_GUARDS"
Extents = tuple[int | None, ...]
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_ANY: Final = -1  # as the native side has it
_SHOWN: Final = 8  # tensors that one is kept apart from, in words
_AS_SUBCLASS: Final = TensorBase.as_subclass
_REQUIRES_GRAD: Final[Any] = TensorBase.__dict__["requires_grad"].__get__


def raw_keys(tensor: torch.Tensor) -> int:
    return int(dispatch_keys(tensor).raw_repr()) & (2**64 - 1)


def python_keys() -> int:
    """The key set bits of tensors that answer in Python: wrapper subclasses, fake tensors."""
    mask = 0
    for name in ("Python", "PythonTLSSnapshot"):
        key = getattr(DispatchKey, name)
        mask |= int(DispatchKeySet(key).raw_repr())
    return mask & (2**64 - 1)


# -- what a tensor must look like --


@tests("TENSOR", cost=2)
@dataclass(slots=True, eq=False)
class TensorMatch(Check):
    """Type, dispatch keys, requires_grad, dtype, device, sizes and strides of a tensor.

    A None among sizes or strides matches any: the dimension is dynamic, and what must hold between
    dimensions is said by relations. `strides` is None for layouts that have none, `requires_grad`
    where nothing depends on it.
    """

    type: type
    keys: int
    requires_grad: bool | None
    dtype: torch.dtype
    device: torch.device
    sizes: Extents
    strides: Extents | None
    wraps: bool = False
    """A wrapper that leaves its sizes to torch: they can be read as those of other tensors."""

    @property
    def argument(self) -> tuple[Any, ...]:
        found = codes(self.dtype, self.device) if calibrate() is None else None
        native = found is not None and (self.wraps or not self.keys & python_keys())
        return (
            self.type,
            self.keys,
            _ANY if self.requires_grad is None else int(self.requires_grad),
            *(found or (0, 0)),
            self.sizes,
            self.strides,
            native,
            self,
        )

    def holds(self, value: Any, read: Reader) -> bool:
        return type(value) is self.type and matches(self, value)

    def alike(self, value: Any) -> TensorMatch | None:
        """What holds for a tensor that differs in sizes and strides at most; None for others."""
        if type(value) is not self.type:
            return None
        tensor: Any = value
        found = tensor_match(tensor)
        same = (
            found.keys == self.keys
            and self.requires_grad in (None, found.requires_grad)
            and found.dtype == self.dtype
            and found.device == self.device
            and len(found.sizes) == len(self.sizes)
            and (found.strides is None) == (self.strides is None)
        )
        return found if same else None

    def actual(self, value: Any) -> str:
        if TensorBase not in type(value).__mro__:
            return show(value)
        with DisableTorchFunction():
            found = tensor_match(value)
        if self.requires_grad is None:
            found.requires_grad = None  # not what is wrong
        same = found.text() == self.text() and found.keys != self.keys
        return found.text() + (" with other dispatch keys" if same else "")

    def text(self) -> str:
        shape = ", ".join("any" if size is None else str(size) for size in self.sizes)
        grad = ", requires_grad" if self.requires_grad else ""
        strides = ""
        if self.strides is not None and not is_dense(self.sizes, self.strides):
            strides = f", strides {self.strides}".replace("None", "any")
        return f"{self.type.__name__}({shape}) of {self.dtype} on {self.device}{strides}{grad}"


def is_dense(sizes: Extents, strides: Extents) -> bool:
    """Are these the strides that a fresh tensor has, as far as they are known?"""
    expected: int | None = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride is not None and stride != expected:
            return False
        expected = None if expected is None or size is None else expected * max(size, 1)
    return True


def tensor_match(tensor: torch.Tensor, dynamic: Collection[int] = ()) -> TensorMatch:
    """What holds for this tensor, any size being right in the dynamic dimensions.

    The strides of the other dimensions may follow from dynamic sizes, so they are compared only
    where no dynamic size comes into them, taking the tensor as dense.
    """
    with DisableTorchFunction():
        return _tensor_match(tensor, plain(tensor), dynamic)


def plain(tensor: Any) -> torch.Tensor:
    """A tensor of a subclass as a plain one: what the class has in its place is not asked.

    Whether it requires grad need not be the same. One that answers in Python stays what it is.
    """
    if type(tensor) in _PLAIN or raw_keys(tensor) & python_keys():
        found: torch.Tensor = tensor
        return found
    return _AS_SUBCLASS(tensor, torch.Tensor)


def _tensor_match(
    given: torch.Tensor, tensor: torch.Tensor, dynamic: Collection[int]
) -> TensorMatch:
    sizes: Extents = tuple(tensor.shape)
    strides: Extents | None = None
    if tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_mkldnn:
        strides = tensor.stride()
    if dynamic:
        sizes = tuple(None if d in dynamic else n for d, n in enumerate(sizes))
        if strides is not None:
            own: tuple[int, ...] = tensor.stride()
            smallest = min((own[d] for d in dynamic), default=0)
            strides = tuple(n if n <= smallest else None for n in own)
    return TensorMatch(
        type=type(given),
        keys=raw_keys(given),
        requires_grad=_REQUIRES_GRAD(given),
        dtype=tensor.dtype,
        device=tensor.device,
        sizes=sizes,
        strides=strides,
    )


def matches(expected: TensorMatch, tensor: Any) -> bool:
    """The same by attribute access, for tensors or builds that can't be read natively."""
    with DisableTorchFunction():
        given, tensor = tensor, plain(tensor)
        return (
            raw_keys(given) == expected.keys
            and expected.requires_grad in (None, _REQUIRES_GRAD(given))
            and tensor.dtype == expected.dtype
            and tensor.device == expected.device
            and extents_match(expected.sizes, tuple(tensor.shape))
            and (expected.strides is None or extents_match(expected.strides, tensor.stride()))
        )


def extents_match(expected: Extents, actual: tuple[int, ...]) -> bool:
    return len(expected) == len(actual) and all(
        e is None or e == a for e, a in zip(expected, actual, strict=True)
    )


# -- memory --


@tests("APART", cost=5)
@dataclass(slots=True, eq=False)
class NoOverlap(Check):
    """The tensor here, and those that are written to as well, share their storage with no other.

    For tensors that have one storage (not sparse ones). Only graphs that write to an input need it:
    one guard for all inputs that are written to. The others may share theirs.
    """

    others: tuple[Source, ...]
    written: tuple[Source, ...] = ()

    @property
    def argument(self) -> tuple[tuple[Source, ...], tuple[int, Callable[..., bool]]]:
        calibrate()
        written = 1 + len(self.written)
        return self.sources(), (written, partial(apart, written))

    def sources(self) -> tuple[Source, ...]:
        return self.written + self.others

    def holds(self, value: Any, read: Reader) -> bool:
        return apart(1 + len(self.written), value, *map(read, self.sources()))

    def text(self) -> str:
        names = [str(each) for each in self.sources()[:_SHOWN]]
        more = len(self.sources()) - len(names)
        return f"shares no memory with {', '.join(names)}" + (f" and {more} more" if more else "")


def apart(written: int, *given: Any) -> bool:
    """The same by attribute access; so many of the tensors, the first ones, are written to."""
    if any(TensorBase not in type(t).__mro__ for t in given):
        return apart_in_memory(written, *given)
    with DisableTorchFunction():
        tensors = [plain(each) for each in given]
        if any(tensor.layout is not torch.strided for tensor in tensors):
            return False  # it has no storage to tell
        counts = Counter(map(storage, tensors))
        return all(counts[own] == 1 for own in map(storage, tensors[:written]) if own != 0)


def apart_in_memory(written: int, *given: Any) -> bool:
    """The same of tensors and numpy's arrays, by where their memory begins and ends."""
    reaches = []
    for index, value in enumerate(given):
        reach = _reach(value)
        if reach is None:
            return False
        reaches.append((*reach, index < written))
    reaches.sort()
    end, changed = 0, False  # how far those up to here reach, and whether one of them is written to
    for low, high, own in reaches:
        if low < end and (own or changed):
            return False
        changed = (low < end and changed) or own
        end = max(end, high)
    return True


def _reach(value: Any) -> tuple[int, int] | None:
    """The memory of a tensor's storage, or of an array; None of anything else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        low, high = numpy.lib.array_utils.byte_bounds(value)
        return (int(low), int(high)) if value.size else (0, 0)
    if TensorBase not in type(value).__mro__:
        return None
    with DisableTorchFunction():
        tensor = plain(value)
        if tensor.layout is not torch.strided or raw_keys(tensor) & python_keys():
            return None
        if not tensor.numel():
            return 0, 0
        memory = tensor.untyped_storage()
        return memory.data_ptr(), memory.data_ptr() + memory.nbytes()


def storage(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins; 0 when the tensor is empty or has no memory.

    A storage without an address, such as a fake tensor's, is told apart by its identity.
    """
    if tensor.numel() == 0:
        return 0
    if raw_keys(tensor) & python_keys():
        return int(tensor.untyped_storage()._cdata)
    return tensor.untyped_storage().data_ptr()


# -- calibration --

_missing: list[str | None] = []  # what calibration found; empty before the first use


def samples() -> tuple[tuple[Any, ...], ...]:
    """Tensors that differ in every word a calibration might take for the right one."""
    with torch.inference_mode(False), torch.enable_grad():
        return tuple(map(sample, sample_tensors()))


def sample_tensors() -> list[torch.Tensor]:
    with torch.inference_mode():
        inference = torch.empty(2)
    frozen = torch.nn.Parameter(torch.empty(6))
    frozen.requires_grad_(False)
    tensors = [
        torch.empty(3, 4),
        torch.empty(5, requires_grad=True),
        torch.nn.Parameter(torch.empty(2, 2)),
        torch.empty(2, 3, 4, dtype=torch.int64).transpose(0, 2),
        torch.empty(3, dtype=torch.complex64).conj(),
        torch.empty((), dtype=torch.bfloat16),
        torch.empty(0, 7, device="meta"),
        torch.empty(2, 1, 3, 4, 5).permute(4, 0, 3, 2, 1),
        torch.empty(2, 1, 3, 1, 4, 2),
        inference,
        frozen,
    ]
    kept = tensors[1] * 2
    kept.retain_grad()
    return [*tensors, tensors[0][1:], tensors[2][1:], tensors[1] + 1, kept]


def sample(t: torch.Tensor) -> tuple[Any, ...]:
    """A tensor, and what is known of it."""
    leaf = t.requires_grad and t.is_leaf
    sizes, strides = tuple(t.shape), t.stride()
    return t, t._cdata, raw_keys(t), t.requires_grad, sizes, strides, storage(t), leaf


def calibrate(without: str | None = None) -> str | None:
    """Prepare the native side once; None, or what is missing and makes tensors slow to check."""
    if without is None:
        if _missing:
            return _missing[0]
        without = os.environ.get(ENVIRONMENT, "")
    if without == "attributes":
        without = "functions"
    try:
        with disable_current_modes(), DisableTorchFunction():
            known = samples()
    except Exception:
        known = ()  # a build we don't know: leave it alone
    missing = _core.tensor_calibrate(TensorBase, known, python_keys(), matches, without)
    if missing is None and SWAPS_KNOWN:
        _core.tensor_count_swaps(swap_tensor_impl)
    _missing[:] = [missing]
    _codes.clear()
    return missing


_codes: dict[tuple[torch.dtype, torch.device], tuple[int, int] | None] = {}


def codes(dtype: torch.dtype, device: torch.device) -> tuple[int, int] | None:
    """How torch's C functions number a dtype and a device; None if they can't tell."""
    key = dtype, device
    if key not in _codes:
        try:
            with disable_current_modes(), DisableTorchFunction():
                _codes[key] = _core.tensor_codes(torch.empty(0, dtype=dtype, device=device))
        except Exception:
            _codes[key] = None  # quantized dtypes, devices without memory …
    return _codes[key]
