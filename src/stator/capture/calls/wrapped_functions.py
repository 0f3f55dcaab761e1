"""Callables of C that call a Python function: which one it is.

Stage: capture, for `Calls` and `Attributes`. In: a compiled function, or one with a
`functools.lru_cache`, that is called or looked at. Out: the function behind it, as the world knows
it. Programs make such objects again and again, so nothing of them is taken for granted but what is
guarded.
"""

import gc
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import CompiledFunction, Frame
from stator.capture.trace.refusals import unseen
from stator.diagnostics.catalogue import OpaqueObject
from stator.guards import Slot
from stator.world import MISSING, World

if TYPE_CHECKING:
    from stator.capture.objects.attributes import Attributes

# A compiled function's own once they are set, the function's until then.
_FACE: Final = frozenset({"__name__", "__qualname__", "__doc__", "__module__"})
# The function's, always.
_PARTS: Final = frozenset(
    {
        "__defaults__",
        "__kwdefaults__",
        "__annotate__",
        "__annotations__",
        "__code__",
        "__closure__",
        "__globals__",
        "__builtins__",
        "__type_params__",
    }
)
_FUNCTION: Final[Any] = CompiledFunction.__dict__["__wrapped__"]


def compiled_behind(world: World, compiled: Any) -> Any:
    """The function of a compiled function, which is evaluated as any other."""
    function = _FUNCTION.__get__(compiled)
    source = world.origins.get(id(compiled))
    if source is None:  # found by C code in a class, which guards its identity
        return world.know(function)
    return world.wrap(function, Slot(source, _FUNCTION))


def compiled_attribute(attributes: "Attributes", frame: Frame, compiled: Any, name: str) -> Any:
    """An attribute of a compiled function; libraries look at signatures, and ask what it wraps."""
    world = attributes.world
    found = objects.lookup(CompiledFunction, name)
    if found is None or name in _FACE:
        value = attributes.own_attribute(compiled, name)
        if value is not MISSING:
            return value
        if found is None:
            return core.getattr(frame, compiled, name)  # there is none
    elif name == "__wrapped__":
        return compiled_behind(world, compiled)
    elif name not in _PARTS:
        raise unseen(world, compiled, f"an attribute of {{}} is read: {name}")
    return attributes.getattr(frame, compiled_behind(world, compiled), name)


def cached_behind(world: World, cache: Any) -> Any:
    """The function of a cache. `__wrapped__` is an attribute like any other: it may be set."""
    function = cache.__wrapped__
    if not any(each is function for each in gc.get_referents(cache)):
        raise OpaqueObject("the attribute __wrapped__ of a functools.lru_cache was set")
    return world.know(function)
