"""Calls that make wrappers, as nodes: what is no tensor or number among their arguments is kept.

In: a class, or a function, and its arguments. Out: a target for a node and the arguments that a
graph can hold. Objects from before the call must be the very same ones in later calls; objects made
in the call, such as a configuration, are copied in each.
"""

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator.capture.numbers.scalars import SYMBOLS
from stator.diagnostics.catalogue import TensorSubclass
from stator.objects.types import qualname_of
from stator.world.kinds import CONSTANTS, is_torch_value

if TYPE_CHECKING:
    from stator.world import World


_TORCHS: Final = objects.TypeSet(
    torch.dtype, torch.device, torch.layout, torch.memory_format, types.FunctionType
)


class _Place:
    """Where an argument of the node goes."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Fresh:
    """An object that the call makes anew."""

    def __init__(self, kind: type, held: dict[str, Any]) -> None:
        self.kind = kind
        self.held = held

    def make(self) -> Any:
        made: Any = object.__new__(self.kind)
        held: Any = objects.instance_dict(made)
        held.update(self.held)
        return made


def construction(
    world: "World", function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The target of the node, and what it is given."""
    given: list[Any] = []
    template = [_kept(world, value, given) for value in args]
    named = {name: _kept(world, value, given) for name, value in kwargs.items()}

    def make(*given: Any) -> Any:
        positional = [_filled(value, given) for value in template]
        return function(*positional, **{k: _filled(v, given) for k, v in named.items()})

    make.__name__ = make.__qualname__ = function.__name__
    make.__module__ = __name__  # what is torch's, torch.fx would look up by its name
    return make, tuple(given)


def _kept(world: "World", value: Any, given: list[Any]) -> Any:
    """An argument with a place for each tensor and number in it."""
    kind = type(value)
    if objects.is_subtype(kind, torch.Tensor) or SYMBOLS.holds(kind):
        given.append(value)
        return _Place(len(given) - 1)
    if (
        CONSTANTS.holds(kind)
        or _TORCHS.holds(kind)
        or is_torch_value(kind)
        or objects.is_subtype(kind, type)
    ):
        return value
    if kind is torch.Size or kind is tuple or kind is list:
        items = [_kept(world, item, given) for item in value]
        return items if kind is list else tuple(items)
    if kind is dict and all(type(key) is str for key in value):
        return {key: _kept(world, item, given) for key, item in value.items()}
    if id(value) in world.origins:
        return world.pin(value)
    held = objects.instance_dict(value)
    plain = objects.layout_base(kind) is object and held is not None
    if plain and all(CONSTANTS.holds(type(item)) for item in (held or {}).values()):
        return _Fresh(kind, dict(held or {}))
    raise TensorSubclass(f"a tensor is made with an object of type {qualname_of(kind)}")


def _filled(value: Any, given: Sequence[Any]) -> Any:
    kind = type(value)
    if kind is _Place:
        return given[value.index]
    if kind is _Fresh:
        return value.make()
    if kind is tuple or kind is list:
        return kind(_filled(item, given) for item in value)
    if kind is dict:
        return {key: _filled(item, given) for key, item in value.items()}
    return value
