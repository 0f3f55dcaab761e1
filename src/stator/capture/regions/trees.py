"""Values of the program as trees: tensors, constants and other objects, in plain containers.

In: what a function of the program is given, or returns. Out: its tensors, and a `Template`, which
puts others in their places. No method of the program's objects is called meanwhile.
"""

from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator.contracts import Depth
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import Transform
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.transforms import pytree
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


class Held:
    """An object that a transform passes on, and does not look at."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Place(Enum):
    """What is not written into a template."""

    TENSOR = 0
    OBJECT = 1


class Template:
    """Containers with places for tensors."""

    def __init__(self, leaves: list[Any], spec: pytree.TreeSpec) -> None:
        self._leaves = [_PLACES.get(type(leaf), leaf) for leaf in leaves]
        self._spec = spec
        self.count = self._leaves.count(Place.TENSOR)
        self.whole = Place.OBJECT not in self._leaves

    def fill(self, tensors: Any) -> Any:
        rest = iter(tensors)
        leaves = [next(rest) if leaf is Place.TENSOR else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(leaves, self._spec)


_PLACES: Final[dict[type, Place]] = {FakeTensor: Place.TENSOR, Held: Place.OBJECT}


class Given:
    """Values of the program, as torch gets them."""

    def __init__(
        self, calls: "Calls", value: Any, name: str, cause: type[Break] = Transform
    ) -> None:
        self.value = held(calls, value, name, cause)
        leaves, self.spec = pytree.tree_flatten(self.value)
        self.leaves = [leaf.value if type(leaf) is Held else leaf for leaf in leaves]
        self.template = Template(leaves, self.spec)
        self.tensors = [leaf for leaf in leaves if type(leaf) is FakeTensor]
        self.objects = [leaf.value for leaf in leaves if type(leaf) is Held]


def held(calls: "Calls", value: Any, name: str, cause: type[Break] = Transform) -> Any:
    """Values of the program, for torch: plain containers, other objects are held."""
    calls.values.ready(value, Depth.DEEP)
    return _held(calls, value, name, cause)


def _held(calls: "Calls", value: Any, name: str, cause: type[Break]) -> Any:
    kind = type(value)
    if kind is FakeTensor:
        if calls.tensors.overrides.concerns(value):
            raise cause(f"{name} of a tensor of a subclass")
        return value
    if CONSTANTS.holds(kind):
        return value
    if kind is dict or kind is OrderedDict:
        if not all(CONSTANTS.holds(type(key)) for key in kind.keys(value)):
            raise cause(f"{name} with a dict whose keys are objects")  # which would be asked
        return kind((key, _held(calls, part, name, cause)) for key, part in kind.items(value))
    if kind is list:
        return [_held(calls, part, name, cause) for part in value]
    if kind is tuple or _is_named_tuple(kind):
        parts = [_held(calls, part, name, cause) for part in tuple.__iter__(value)]
        return tuple.__new__(kind, parts)
    if id(kind) in map(id, pytree.SUPPORTED_NODES):  # torch, or the program, takes it apart
        raise cause(f"{name} with an object of type {kind.__qualname__}")
    if objects.is_subtype(kind, tuple) and pytree.is_namedtuple_class(kind):
        raise cause(f"{name} with a named tuple of a class of its own, {kind.__qualname__}")
    return Held(value)


def _is_named_tuple(kind: type) -> bool:
    """One that is made by nothing but `tuple`."""
    return objects.mro(kind) == (kind, tuple, object) and pytree.is_namedtuple_class(kind)
