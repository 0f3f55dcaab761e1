"""Calls that make wrappers, as nodes: what is no tensor or number among their arguments is kept.

In: a class, or a function, and its arguments. Out: a target for a node and the arguments that a
graph can hold. Objects from before the call must be the very same ones in later calls; objects made
in the call, such as a configuration, are copied in each, and are nothing else from then on.
"""

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from stator import objects
from stator.capture.numbers.scalars import SYMBOLS
from stator.diagnostics.catalogue import TensorSubclass
from stator.objects.types import qualname_of
from stator.torchlib.transforms import pytree
from stator.world.kinds import CONSTANTS, is_torch_value

if TYPE_CHECKING:
    from stator.guards import Source
    from stator.world import World


_TORCHS: Final = objects.TypeSet(
    torch.dtype, torch.device, torch.layout, torch.memory_format, types.FunctionType
)


class _Place:
    """Where an argument of the node goes."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Pinned:
    """An object from before the call."""

    def __init__(self, value: Any) -> None:
        self.value = value


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


class Construction(NamedTuple):
    """A call that makes a wrapper."""

    target: Callable[..., Any]
    given: tuple[Any, ...]
    """The tensors and numbers: operands of the node."""
    keeps: bool
    pinned: list[tuple[Any, "Source"]]
    """Real objects that the wrapper gets."""
    copied: list[Any]
    """Objects made in the call of which it gets a copy."""


class _Arguments:
    """Those of one call, as they are taken apart."""

    def __init__(self, world: "World", keeps: bool) -> None:
        self.world = world
        self.keeps = keeps  # whether the very lists and dicts are kept by what is made
        self.given: list[Any] = []
        self.pinned: list[tuple[Any, Source]] = []
        self.copied: list[Any] = []


def construction(
    world: "World", function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Construction:
    """The target of the node, and what it is given."""
    found = _Arguments(world, keeps=objects.is_subtype(type(function), type))
    template = [_kept(found, value) for value in args]
    named = {name: _kept(found, value) for name, value in kwargs.items()}

    def make(*given: Any) -> Any:
        positional = [_filled(value, given) for value in template]
        return function(*positional, **{k: _filled(v, given) for k, v in named.items()})

    make.__name__ = make.__qualname__ = function.__name__
    make.__module__ = __name__  # what is torch's, torch.fx would look up by its name
    return Construction(make, tuple(found.given), found.keeps, found.pinned, found.copied)


def _kept(found: _Arguments, value: Any) -> Any:
    """An argument with a place for each tensor and number in it."""
    kind, world = type(value), found.world
    if objects.is_subtype(kind, torch.Tensor) or SYMBOLS.holds(kind):
        found.given.append(value)
        return _Place(len(found.given) - 1)
    if (
        CONSTANTS.holds(kind)
        or _TORCHS.holds(kind)
        or is_torch_value(kind)
        or objects.is_subtype(kind, type)
    ):
        return value
    if kind is torch.Size or kind is tuple:
        return tuple(_kept(found, item) for item in value)
    if kind is list or (kind is dict and all(type(key) is str for key in value)):
        if not found.keeps or id(value) not in world.origins:
            _copied(found, value)
            if kind is list:
                return [_kept(found, item) for item in value]
            return {key: _kept(found, item) for key, item in value.items()}
        if any(map(_is_operand, pytree.tree_leaves(value))):
            raise TensorSubclass(f"a tensor is made with a {kind.__name__} of tensors or numbers")
    if id(value) in world.origins:
        source = world.origins[id(value)]
        found.pinned.append((world.pin(value), source))
        return _Pinned(found.pinned[-1][0])
    held = objects.instance_dict(value)
    plain = objects.layout_base(kind) is object and held is not None
    if plain and all(CONSTANTS.holds(type(item)) for item in (held or {}).values()):
        _copied(found, value)
        return _Fresh(kind, dict(held or {}))
    raise TensorSubclass(f"a tensor is made with an object of type {qualname_of(kind)}")


def _copied(found: _Arguments, value: Any) -> None:
    if found.keeps:
        if id(value) in found.world.opaque:
            raise TensorSubclass("two tensors are made with one object that the call has made")
        found.copied.append(value)


def _is_operand(value: Any) -> bool:
    return objects.is_subtype(type(value), torch.Tensor) or SYMBOLS.holds(type(value))


def _filled(value: Any, given: Sequence[Any]) -> Any:
    kind = type(value)
    if kind is _Place:
        return given[value.index]
    if kind is _Pinned:
        return value.value
    if kind is _Fresh:
        return value.make()
    if kind is tuple or kind is list:
        return kind(_filled(item, given) for item in value)
    if kind is dict:
        return {key: _filled(item, given) for key, item in value.items()}
    return value
