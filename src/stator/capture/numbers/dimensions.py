"""What a program says of the sizes of a tensor: `mark_dynamic` and the like.

In: a tensor and its dimensions. Out: attributes on the tensor, with the names that torch gives
them, so that marks made through torch count here, and ours there; `Marks`, what they say.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from stator import objects

Dimensions = int | Sequence[int]


class DimRange(NamedTuple):
    """Between which numbers the size of a dimension lies."""

    dim: int
    min: int | None
    max: int | None


def mark_dynamic(
    tensor: torch.Tensor, dims: Dimensions, *, min: int | None = None, max: int | None = None
) -> None:
    """Sizes of this tensor are left open from the start, between `min` and `max`.

    If the program is right for one size only, compiling it is an error that says why. As in torch,
    0 and 1 are sizes of their own.
    """
    for dim in _each(tensor, dims):
        if min is not None and max is not None and min >= max:
            raise ValueError(f"a size that is between {min} and {max} is not dynamic")
        _set(tensor, "_dynamo_dynamic_indices").add(dim)
        _set(tensor, "_dynamo_dynamic_range").add(DimRange(dim, min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, dims: Dimensions) -> None:
    """Sizes of this tensor are left open from the start, as far as the program allows it."""
    for dim in _each(tensor, dims):
        _set(tensor, "_dynamo_weak_dynamic_indices").add(dim)


def mark_static(tensor: torch.Tensor, dims: Dimensions | None = None) -> None:
    """Sizes of this tensor (all of them, if none are named) are never left open."""
    for dim in _each(tensor, range(tensor.dim()) if dims is None else dims):
        _set(tensor, "_dynamo_static_indices").add(dim)


def mark_unbacked(
    tensor: torch.Tensor, dims: Dimensions, *, min: int | None = None, max: int | None = None
) -> None:
    """Sizes of this tensor are left open, and nothing is known of them, 0 and 1 included.

    They are like numbers that are read from tensors, except that what the program takes for granted
    is a guard. So are `min` and `max`.
    """
    for dim in _each(tensor, dims):
        _set(tensor, "_dynamo_unbacked_indices").add(dim)
        if min is not None or max is not None:
            tensor.__dict__.setdefault("_dynamo_unbacked_bounds", {})[dim] = (min, max)


class Marks(NamedTuple):
    """What a program has said of a tensor."""

    strict: frozenset[int] = frozenset()
    weak: frozenset[int] = frozenset()
    static: frozenset[int] = frozenset()
    unbacked: frozenset[int] = frozenset()
    bounds: Mapping[int, tuple[int | None, int | None]] = {}

    def word(self, dim: int) -> str:
        """With which function the size of a dimension was marked as open; empty if with none."""
        words = (
            (self.unbacked, "mark_unbacked"),
            (self.strict, "mark_dynamic"),
            (self.weak - self.static, "maybe_mark_dynamic"),
        )
        return next((word for dims, word in words if dim in dims), "")


def marks_of(tensor: torch.Tensor) -> Marks:
    """What torch's functions, or ours, have written on a tensor."""
    own = objects.instance_dict(tensor)
    if not own:
        return _NONE

    def dims(name: str) -> frozenset[Any]:
        found = dict.get(own, name)
        return frozenset(found) if type(found) is set else frozenset()

    bounds = dict.get(own, "_dynamo_unbacked_bounds")
    ranges = dims("_dynamo_dynamic_range")
    # AOTAutograd says of its results which sizes were symbolic.
    propagated = dims("_dynamo_propagated_dynamic_indices")
    return Marks(
        dims("_dynamo_dynamic_indices") | dims("_dynamo_strict_unbacked_indices"),
        dims("_dynamo_weak_dynamic_indices") | propagated,
        dims("_dynamo_static_indices"),
        dims("_dynamo_unbacked_indices"),
        {
            **(bounds if type(bounds) is dict else {}),
            **{each.dim: (each.min, each.max) for each in ranges if _is_range(type(each))},
        },
    )


_NONE: Final = Marks()


def _is_range(cls: type) -> bool:
    return cls is DimRange or cls.__module__ == "torch._dynamo.decorators"


def ignored(*args: Any, **kwargs: Any) -> None:
    """What these functions do in compiled code, where the sizes are decided already: nothing."""


def fixed(tensor: torch.Tensor, dims: Dimensions | None = None) -> None:
    """What `mark_static` does in compiled code: a key must be a number, not a symbol."""
    for dim in _each(tensor, range(tensor.dim()) if dims is None else dims):
        hash(tensor.size(dim))


def torchs_fixed(t: Any, index: Dimensions | None = None) -> Any:
    """The same for `torch._dynamo.mark_static`, which takes any index, and classes of modules."""
    if not isinstance(t, torch.Tensor):
        if issubclass(t, torch.nn.Module):
            t._dynamo_marked_static = True
            return t
        raise TypeError(f"mark_static expects a tensor/nn.Module class but received {type(t)}")
    count = t.dim()
    wanted = range(count) if index is None else [index] if isinstance(index, int) else index
    for dim in wanted:
        if -count <= dim < count:
            hash(t.size(dim))
    return None


MARKING: Final[Mapping[Callable[..., None], Callable[..., None]]] = {
    mark_dynamic: ignored,
    maybe_mark_dynamic: ignored,
    mark_static: fixed,
    mark_unbacked: ignored,
}
"""What these functions are in compiled code."""
TORCHS_MARKING: Final[Mapping[str, Callable[..., Any]]] = {
    "mark_dynamic": ignored,
    "maybe_mark_dynamic": ignored,
    "mark_static": torchs_fixed,
    "mark_unbacked": ignored,
}
"""The same for the functions of torch._dynamo, by name."""


def _each(tensor: Any, dims: Dimensions) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"only tensors have sizes, not {type(tensor).__name__}")
    wanted = [dims] if isinstance(dims, int) else list(dims)
    for dim in wanted:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"a tensor of {tensor.dim()} dimensions has no dimension {dim}")
    return [dim % tensor.dim() for dim in wanted]


def _set(tensor: torch.Tensor, name: str) -> set[Any]:
    found: set[Any] | None = tensor.__dict__.get(name)
    if found is None:
        found = tensor.__dict__[name] = set()
    return found
