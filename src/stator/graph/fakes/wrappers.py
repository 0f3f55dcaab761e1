"""Wrapper subclasses: tensors that hold tensors, and answer to operators in Python.

In: a fake, or a real tensor, of a class with `__tensor_flatten__`. Out: what it holds. Its fake is
of the class itself, around fakes; its parts are where operators read and write.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from stator import objects
from stator.graph.fakes.memory import storage_of
from stator.objects.types import module_of, of_torch
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import disabled_torch_function

_DEEPEST: Final = 8


def is_wrapper_class(cls: type) -> bool:
    """Whether its tensors say what they are made of."""
    return (
        cls is not FakeTensor
        and objects.is_subtype(cls, torch.Tensor)
        and objects.lookup(cls, "__tensor_flatten__") is not None
    )


def is_own(cls: type) -> bool:
    """Whether the program has defined a class, or one that it derives from, not torch alone."""
    return any(owner is not object and not of_torch(module_of(owner)) for owner in objects.mro(cls))


def asks(cls: type) -> bool:
    """Whether torch asks a class of tensors about each call, before autograd."""
    found = objects.lookup(cls, "__torch_function__")
    return found is not None and found.value is not disabled_torch_function


def is_wrapper(value: Any) -> bool:
    """Whether a tensor holds others, and says so."""
    cls = type(value)
    return cls is not FakeTensor and cls is not torch.Tensor and is_wrapper_class(cls)


def flattened(tensor: Any) -> tuple[list[str], Any]:
    """The names of what it holds, and all else that there is of it: by its own code."""
    names, context = tensor.__tensor_flatten__()
    return list(names), context


def alike(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether what two wrappers hold besides tensors is the same, as far as anybody can tell.

    A number that is left open is taken for the number that it is in this call.
    """
    if one is other:
        return True
    kind = type(one)
    if type(other) is not kind or depth > _DEEPEST:
        return isinstance(one, int) and isinstance(other, torch.SymInt)
    if kind in (int, float, complex, bool, str, bytes):
        return repr(one) == repr(other)
    if kind in (tuple, list, torch.Size):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(a, b, depth + 1) for a, b in pairs)
    if kind is dict:
        return list(one) == list(other) and alike([*one.values()], [*other.values()], depth + 1)
    if objects.layout_base(kind) is object and objects.instance_dict(one) is not None:
        return alike(objects.instance_dict(one), objects.instance_dict(other), depth + 1)
    return of_torch(module_of(kind)) and bool(one == other)


def parts_of(tensor: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors that it holds, by name: what it names may be None, or opaque, such as a mesh."""
    names, _ = flattened(tensor)
    found = ((name, getattr(tensor, name)) for name in names)
    return [(name, part) for name, part in found if isinstance(part, torch.Tensor)]


def plain_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors in it, however deep; a plain one itself."""
    if not is_wrapper(tensor):
        yield tensor
        return
    for _, part in parts_of(tensor):
        yield from plain_parts(part)


def with_parts(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, and what those among them hold that are wrappers."""
    found: list[torch.Tensor] = []
    for tensor in tensors:
        found.append(tensor)
        if is_wrapper(tensor):
            found += plain_parts(tensor)
    return found


def memories(tensor: torch.Tensor) -> set[int]:
    """The memory of a tensor, and of what it holds."""
    if type(tensor) is FakeTensor:
        return {storage_of(tensor)}
    return {storage_of(each) for each in with_parts([tensor])}
