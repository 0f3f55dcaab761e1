"""Indices with numbers that are read from tensors: `x[:n]`, `x[t]`, `cache[:, pos : pos + 1] = v`.

In: the index of a tensor, as the program wrote it. Out: the same as torch's fake tensors take it.
A tensor of one integer is read, as torch does it. An integer that is read selects, and a slice with
such a bound is a view of its own: `x[n, 2:m]` is `x[n : n + 1].squeeze(0)[2:m]`. As in torch, parts
of an index apply one after the other, and so give the same view.

Compilers can write into such views, and compute gradients, only if they know whether a number
counts from the start or from the end. It is assumed to count from the start, `-n` from the end.
"""

import operator
from typing import Any, Final

import torch

from stator._native._core import Frame
from stator.capture.numbers.scalars import SYMBOLS, Scalars, is_index
from stator.diagnostics.catalogue import ValueNeeded
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.world import MISSING

_ALL: Final = slice(None)
_PARTS: Final = TypeSet(int, slice, type(None), type(Ellipsis), FakeTensor, list)


class Indexing:
    """Indices of the tensors in one trace."""

    def __init__(self, scalars: Scalars) -> None:
        self._scalars = scalars
        self._tensors = scalars.tensors

    def read(self, frame: Frame | None, obj: torch.Tensor, key: Any) -> tuple[torch.Tensor, Any]:
        """For `obj[key]`; the key is () if there is nothing left to do."""
        parts = self._read(frame, key)
        if parts is None:
            return obj, key
        if len(parts) == 1 and type(parts[0]) is slice:
            self._require_signs(parts[0])
            return obj, parts[0]
        return self._applied(frame, obj, parts)

    def gathered(self, frame: Frame | None, obj: torch.Tensor, key: Any) -> Any:
        """For `obj[key]` where tensors of one number are not read (`Settings.modes`); MISSING for
        an index of anything but numbers and tensors, which is as usual.
        """
        parts = _leaves(key)
        if not all(type(part) is FakeTensor or type(part) in (int, bool) for part in parts):
            if any(SYMBOLS.holds(type(part)) for part in parts):
                raise ValueNeeded("a symbolic number is an index where indices are tensors")
            return MISSING
        made = [
            part
            if type(part) is FakeTensor
            else self._tensors.record(
                frame, torch.tensor, (part,), {"dtype": torch.int64, "device": obj.device}
            )
            for part in parts
        ]
        result = self._tensors.record(frame, torch.ops.aten.index.Tensor, (obj, made))
        if self._tensors.own.settings.keeps_indices:
            node = self._tensors.graph.node(result)
            node.target = operator.getitem
            node.args = self._tensors.graph.arguments.of((obj, key))
        return result

    def written(self, frame: Frame | None, obj: torch.Tensor, key: Any) -> tuple[torch.Tensor, Any]:
        """For `obj[key] = value`: a view, and what of the index is left.

        The size of the view is a symbol of its own, and an assignment has no result to bind it to.
        """
        parts = self._read(frame, key)
        if parts is None:
            return obj, key
        obj, rest = self._applied(frame, obj, parts)
        return obj, rest or Ellipsis

    def _read(self, frame: Frame | None, key: Any) -> list[Any] | None:
        """The parts of an index, all tensors in it read; None if there is nothing to be done."""
        parts = list(key) if type(key) is tuple else [key]
        if not any(_depends(part) for part in parts):
            return None
        return [self._part(frame, part) for part in parts]

    def _part(self, frame: Frame | None, part: Any) -> Any:
        if type(part) is slice:
            bounds = (part.start, part.stop, part.step)
            return slice(*(self._bound(frame, bound) for bound in bounds))
        return self._scalars.item(frame, part) if _is_position(part) else part

    def _bound(self, frame: Frame | None, bound: Any) -> Any:
        return self._scalars.index(frame, bound) if type(bound) is FakeTensor else bound

    def _applied(
        self, frame: Frame | None, obj: torch.Tensor, parts: list[Any]
    ) -> tuple[torch.Tensor, tuple[Any, ...]]:
        """The tensor after the parts that depend on values, and the parts that don't."""
        rest: list[Any] = []
        dim = 0
        left = sum(map(_dimensions, parts))  # dimensions that are not yet dealt with, but for `...`
        for part in parts:
            left -= _dimensions(part)
            if part is Ellipsis:
                skipped = obj.dim() - dim - left
                rest += [_ALL] * skipped
                dim += skipped
            elif type(part) is torch.SymInt:
                obj = self._select(frame, obj, dim, part)
            elif part is None:
                obj = self._tensors.record(frame, torch.unsqueeze, (obj, dim))
                rest.append(_ALL)
                dim += 1
            elif _depends(part):
                self._require_signs(part)
                obj = self._tensors.record(frame, operator.getitem, (obj, (*[_ALL] * dim, part)))
                rest.append(_ALL)
                dim += 1
            else:
                rest.append(part)
                dim += _dimensions(part)
        if all(type(part) is slice and part == _ALL for part in rest):
            return obj, ()
        return obj, tuple(rest)

    def _select(self, frame: Frame | None, obj: torch.Tensor, dim: int, index: Any) -> torch.Tensor:
        if dim >= obj.dim():
            raise ValueNeeded("too many indices for a tensor, one of them read from a tensor")
        scalars, size = self._scalars, obj.shape[dim]
        if _is_negative(index):
            index = scalars.known(lambda: index + size)
        outside = "an index that is read from a tensor is out of range"
        scalars.require(scalars.known(_from_zero, index), outside)
        scalars.require(scalars.known(lambda: index < size), outside)
        part = (*[_ALL] * dim, slice(index, index + 1))
        view = self._tensors.record(frame, operator.getitem, (obj, part))
        selected: torch.Tensor = self._tensors.record(frame, torch.squeeze, (view, dim))
        return selected

    def _require_signs(self, part: slice) -> None:
        for bound in (part.start, part.stop):
            if type(bound) is torch.SymInt:
                sign = self._scalars.known(
                    _below_zero if _is_negative(bound) else _from_zero, bound
                )
                self._scalars.require(sign, "a slice with a bound of the other sign")


def _leaves(key: Any) -> list[Any]:
    """The parts of an index, those of tuples and lists in it, too."""
    if type(key) is tuple or type(key) is list:
        return [leaf for part in key for leaf in _leaves(part)]
    return [key]


def _is_negative(number: torch.SymInt) -> bool:
    """Whether the program has written a minus sign."""
    return bool(number.node.expr.could_extract_minus_sign())


def _below_zero(number: torch.SymInt) -> Any:
    return number < 0


def _from_zero(number: torch.SymInt) -> Any:
    return number >= 0


def _depends(part: Any) -> bool:
    """Whether a part of an index depends on values, in a way that torch takes for a number."""
    if type(part) is slice:
        bounds = (part.start, part.stop, part.step)
        return any(type(each) is FakeTensor or SYMBOLS.holds(type(each)) for each in bounds)
    return type(part) is torch.SymInt or _is_position(part)


def _is_position(part: Any) -> bool:
    """What torch takes for an integer as an index: `x[t]`. uint8 is a mask there."""
    if type(part) is not FakeTensor or part.dim() != 0:
        return False
    return part.dtype is not torch.uint8 and is_index(part)


def _dimensions(part: Any) -> int:
    """How many dimensions of a tensor a part of an index takes."""
    if part is None or part is Ellipsis:
        return 0
    if type(part) is FakeTensor and part.dtype in (torch.bool, torch.uint8):
        return part.dim()
    flat = type(part) is not list or all(type(each) is int for each in part)
    if not (flat and _PARTS.holds(type(part))) and type(part) is not torch.SymInt:
        raise ValueNeeded(f"a {type(part).__qualname__} and a number from a tensor in one index")
    return 1
