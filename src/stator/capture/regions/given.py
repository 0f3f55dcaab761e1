"""What a region is called with, so that two calls can be compared.

Stage: capture. In: the arguments of a call, as the trace has them. Out: `Given`: a key that is
equal for calls that look alike (structure, constants, kinds of tensors, which arguments are the
same object), and the leaves whose facts have to be checked one by one: objects of the world.
"""

import struct
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator.capture.numbers.scalars import SYMBOLS
from stator.capture.tensors.tensors import CONSTANT_TYPES
from stator.graph.fakes.memory import expression
from stator.graph.leaves import leaves
from stator.guards import Fixed
from stator.guards.tensors import raw_keys
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_CONSTANT_TYPES: Final = TypeSet(*CONSTANT_TYPES)


class Unfit(Exception):  # noqa: N818 - an answer, not an error
    """A call can't be compared with others: it is traced, and nothing is kept of it."""


@dataclass
class Given:
    """The arguments of one call."""

    key: Any = None
    tensors: list[torch.Tensor] = field(default_factory=list)
    """Fakes, each once, in the order in which they come."""
    numbers: list[Any] = field(default_factory=list)
    world: list[Any] = field(default_factory=list)
    """Stand-ins of objects from before the call, but for tensors, each once."""
    bare: list[Any] = field(default_factory=list)
    """Of each tensor, what most programs don't ask: where it comes from."""
    containers: list[Any] = field(default_factory=list)
    """Lists, dicts and tuples that were made in the call."""
    contents: list[tuple[Any, ...]] = field(default_factory=list)
    """What they held when the region was called."""

    def changed(self) -> bool:
        """Whether the region has changed a container that it was given."""
        pairs = zip(self.containers, self.contents, strict=True)
        return any(not _same(_held(each), before) for each, before in pairs)


def _same(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _held(container: Any) -> tuple[Any, ...]:
    if type(container) is dict:
        return (*dict.keys(container), *dict.values(container))
    kind: Any = list if type(container) is list else tuple
    return tuple(kind.__iter__(container))


def given(calls: "Calls", *values: Any) -> Given:
    """What a call is given; raises `Unfit` where something can't be compared."""
    found = Given()
    with DisableTorchFunction():
        found.key = tuple(_Walk(calls, found).key(value) for value in values)
    return found


def constant_key(value: Any) -> Any:
    """Equal for constants of the same type and value, zeros of either sign being different."""
    cls = type(value)
    if cls is float:
        return cls, struct.pack("d", value)
    if cls is complex:
        return cls, struct.pack("dd", value.real, value.imag)
    return cls, value


class _Walk:
    """One walk over arguments."""

    def __init__(self, calls: "Calls", found: Given) -> None:
        self._calls = calls
        self._world = calls.world
        self._found = found
        self._seen = {id(each): i for i, each in enumerate(found.containers)}

    def key(self, value: Any) -> Any:
        cls = type(value)
        if CONSTANTS.holds(cls):
            return constant_key(value)
        if cls is FakeTensor:
            return "tensor", self._place(self._found.tensors, value), self._tensor(value)
        if SYMBOLS.holds(cls):
            self._found.numbers.append(value)
            return cls, value.node.expr
        if _CONSTANT_TYPES.holds(cls):
            if cls is torch.Size:
                return cls, *map(expression, value)
            return cls, value
        if id(value) in self._world.origins:
            if type(self._world.origins[id(value)]) is Fixed and id(value) not in (
                self._world.records
            ):
                return "is", id(value)
            return "world", self._place(self._found.world, value)
        if cls in (list, tuple, dict) and id(value) not in self._world.records:
            return self._container(value, cls)
        if cls is slice:
            return cls, *map(self.key, (value.start, value.stop, value.step))
        if cls is types.MethodType:
            return cls, self.key(value.__func__), self.key(value.__self__)
        if cls is types.FunctionType or objects.is_subtype(cls, type):
            if self._world.is_world(value):
                return "is", id(value)
        elif objects.layout_base(cls) is tuple and objects.instance_dict(value) is None:
            return self._container(value, cls)
        raise Unfit(f"an argument is a {cls.__qualname__} that was made in the call")

    def _container(self, value: Any, cls: type) -> Any:
        if id(value) in self._seen:
            return "container", self._seen[id(value)]
        found = self._found
        self._seen[id(value)] = len(found.containers)
        found.containers.append(value)
        found.contents.append(_held(value))
        if cls is dict:
            if not all(type(name) is str for name in dict.keys(value)):
                raise Unfit("an argument is a dict whose keys are no strings")
            items = dict.items(value)
            return cls, *((name, self.key(item)) for name, item in items)
        return cls, *map(self.key, _held(value))

    def _place(self, among: list[Any], value: Any) -> int:
        """Which of them it is: the same object twice is one."""
        for place, each in enumerate(among):
            if each is value:
                return place
        among.append(value)
        return len(among) - 1

    def _tensor(self, fake: torch.Tensor) -> Any:
        tensors = self._calls.tensors
        if tensors.is_of_subclass(fake):
            raise Unfit("an argument is a tensor of a subclass")
        if tensors.own.has_state(fake):
            raise Unfit("an argument is a tensor to which the call has given attributes")
        known = id(fake) in tensors.inputs
        self._found.bare.append((known, fake.is_leaf, fake._is_view()))
        return look(fake)


def look(fake: torch.Tensor) -> Any:
    """What operators depend on, but for the values."""
    return (
        leaves.python_type(fake),
        fake.dtype,
        fake.device,
        tuple(map(expression, fake.shape)),
        tuple(map(expression, fake.stride())),
        expression(fake.storage_offset()),
        fake.requires_grad,
        raw_keys(fake),
    )
