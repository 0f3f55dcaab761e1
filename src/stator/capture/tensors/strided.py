"""Operators that lay a tensor anew into the memory it is in: `as_strided`, `resize_` of a view.

Stage: capture. In: an operator that was recorded, and its tensor. Out: guards on where inputs begin
in memory, or a `Break`. Such operators reach memory beside the tensor that they are given, which
backends do not see: what they are given is the tensor.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator.diagnostics.catalogue import SharedMemory, TensorStateChanged
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import extent, storage_of

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_STRIDED: Final = frozenset({"as_strided", "as_strided_"})
_RESIZING: Final = frozenset({"resize_", "resize_as_"})
# By identity: what a program has allowed in graphs may have a hash of its own.
_FUNCTIONS: Final = {
    id(function): name
    for name in (*_STRIDED, *_RESIZING)
    for function in (getattr(torch, name, None), getattr(torch.ops.aten, name).default)
}

PLACING: Final = frozenset(
    f"{name}{overload}" for name in (*_STRIDED, *_RESIZING) for overload in ("", ".default")
)  # the names of such operators


def placing(target: Any) -> str:
    """The name of such an operator; empty for others."""
    if type(target) is tuple:
        return str(target[1]) if target[1] in _STRIDED or target[1] in _RESIZING else ""
    return _FUNCTIONS.get(id(target), "")


def sizes_before(name: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The tensors that an operator may resize, with their sizes; None for most operators."""
    if kwargs and kwargs.get("out") is not None:
        out = kwargs["out"]
        given: Sequence[Any] = out if isinstance(out, tuple | list) else [out]
    elif name in _RESIZING:
        given = args[:1]
    else:
        return None
    return [(each, each.shape) for each in given if isinstance(each, torch.Tensor)]


WARNED: Final = "an out= argument that is not empty is resized, of which torch warns"


def check_resized(
    tensors: "Tensors",
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    before: Sequence[tuple[torch.Tensor, torch.Size]],
) -> None:
    """A part of a tensor is not given another size; `resized` looks after inputs.

    Where an operator makes its `out=` argument larger, the kernel decides about strides, which
    are those of a new tensor if all operands lie like that. Fake kernels always say so.
    """
    others = {key: value for key, value in (kwargs or {}).items() if key != "out"}
    fresh = all(each.is_contiguous() for each in tensors_in((args, others)))
    for tensor, shape in before:
        if tensor.shape == shape:
            continue
        if not fresh and name not in _RESIZING:
            raise TensorStateChanged("an out= argument is resized as operands lie in memory")
        if id(tensor) not in tensors.inputs and tensor._is_view():
            raise TensorStateChanged("a part of a tensor is given another size")
        if id(tensor) in tensors.inputs and name not in _RESIZING and 0 not in shape:
            raise TensorStateChanged(WARNED)


def check_strided(
    tensors: "Tensors",
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    result: Any,
) -> None:
    """What was laid anew into the memory of an input is a part of this input."""
    if name not in _STRIDED:
        return
    absolute = len(args) > 3 or (kwargs or {}).get("storage_offset") is not None
    memory = storage_of(result)
    for given in tensors.graph.fakes.inputs:
        if storage_of(given.fake) != memory or given.real.layout is not torch.strided:
            continue
        source = tensors.sources.get(id(given.real))
        if absolute and source is not None:
            tensors.shapes.begins(given.real, source)
            if given.real.storage_offset():
                raise SharedMemory("as_strided counts from the start of memory, not of the tensor")
        dims = given.real.dim()
        held = extent(given.layout[:dims], given.layout[dims : 2 * dims])
        begin = result.storage_offset() - given.real.storage_offset()
        if begin < 0 or begin + extent(result.shape, result.stride()) > held:
            raise SharedMemory("as_strided reaches memory outside of the tensor")
