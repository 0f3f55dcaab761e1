"""Objects of torch's that stand for a value: meshes, placements and specs of DTensors.

In: such an object, from before the call or made in it. Out: the object itself, with a guard that it
is equal to what it was; what its attributes and public methods tell, which is asked for real. They
do not change, so that one of them is as good as an equal one. A mesh has process groups: it must be
the very same one.
"""

from typing import TYPE_CHECKING, Any

from stator import objects
from stator._native import _core as core
from stator.guards import Fixed, Is, Same, Source
from stator.objects.types import module_of
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.kinds import CONSTANTS, MESHES, PLACEMENTS, is_torch_value

if TYPE_CHECKING:
    from stator.world import World


def is_constant(value: Any) -> bool:
    """Something that is known, with all that it holds."""
    kind = type(value)
    if kind is tuple or kind is list:
        return all(map(is_constant, value))
    return CONSTANTS.holds(kind) or is_torch_value(kind)


def wrap(world: "World", raw: Any, source: Source) -> Any:
    """One from before the call."""
    guard(world, raw, source)
    return world.remember(raw, raw, source)


def guard(world: "World", raw: Any, source: Source) -> None:
    """It is the same value in later calls."""
    if module_of(type(raw)) == MESHES:
        world.guard(source, Is(raw))
    else:
        world.guard(source, Same(raw, equal))


def guard_metadata(world: "World", raw: Any, source: Source) -> None:
    """The same of what describes a tensor: its sizes and strides are guarded, or open, by
    themselves.
    """
    if "tensor_meta" in (objects.instance_dict(raw) or {}):
        world.guard(source, Same(raw, alike))
    else:
        guard(world, raw, source)


def alike(a: Any, b: Any) -> bool:
    """Whether two specs say the same of tensors, whatever their sizes."""
    if type(a) is not type(b) or a.mesh is not b.mesh or a.placements != b.placements:
        return False
    one, two = a.tensor_meta, b.tensor_meta
    if one is None or two is None:
        return bool(a == b)
    orders = (getattr(each, "shard_order", None) for each in (a, b))  # own: newer torch has it
    return bool(one.dtype == two.dtype and len(one.shape) == len(two.shape)) and len({*orders}) == 1


def equal(a: Any, b: Any) -> bool:
    """Whether two are equal, with the same mesh."""
    return type(a) is type(b) and _mesh(a) is _mesh(b) and bool(a == b)


def _mesh(value: Any) -> Any:
    return (objects.instance_dict(value) or {}).get("mesh")


def getattr_of(world: "World", obj: Any, name: str) -> Any:
    """An attribute, as the object tells it."""
    with DisableTorchFunction():
        try:
            value = getattr(obj, name)  # own: one of torch's classes
        except Exception as error:
            core.raise_user(error)
    return told(world, value, f"{type(obj).__name__}.{name}")


def told(world: "World", value: Any, name: str) -> Any:
    """What such an object has told."""
    kind = type(value)
    if CONSTANTS.holds(kind) or world.is_world(value):
        return value
    if getattr(value, "__self__", None) is not None:  # own: a method of it
        world.keep(value)
        return value
    return world.wrap(value, Fixed(value, name))


def may_run(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether a bound method only tells something about its object."""
    name = getattr(function, "__name__", "_")  # own: a method of torch's
    given = [*args, *kwargs.values()]
    return not name.startswith("_") and all(map(is_constant, given))


def may_make(cls: type, args: Any, kwargs: Any) -> bool:
    """Whether a call of a class makes a value of what is known."""
    if module_of(cls) not in PLACEMENTS or not is_torch_value(cls):
        return False
    return all(map(is_constant, [*args, *kwargs.values()]))


def run(world: "World", function: Any, args: Any, kwargs: Any) -> Any:
    """Asks for real."""
    with DisableTorchFunction():
        try:
            made = function(*args, **kwargs)
        except Exception as error:
            core.raise_user(error)
    if is_torch_value(type(made)):
        return world.know(made)
    return told(world, made, getattr(function, "__name__", "?"))  # own: torch's
