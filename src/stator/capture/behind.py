"""Callables of C that call a Python function: which one it is.

Stage: capture, for `Calls`. In: a compiled function, or one with a `functools.lru_cache`, that is
called. Out: the function behind it, as the world knows it. Programs make such objects again and
again, so nothing of them is taken for granted but what is guarded.
"""

import gc
from typing import Any, Final

from stator._native._core import CompiledFunction
from stator.diagnostics.catalogue import OpaqueObject
from stator.guards import Slot
from stator.world import World

_FUNCTION: Final[Any] = CompiledFunction.__dict__["__wrapped__"]


def compiled_behind(world: World, compiled: Any) -> Any:
    """The function of a compiled function, which is evaluated as any other."""
    function = _FUNCTION.__get__(compiled)
    source = world.origins.get(id(compiled))
    if source is None:  # found by C code in a class, which guards its identity
        return world.know(function)
    return world.wrap(function, Slot(source, _FUNCTION))


def cached_behind(world: World, cache: Any) -> Any:
    """The function of a cache. `__wrapped__` is an attribute like any other: it may be set."""
    function = cache.__wrapped__
    if not any(each is function for each in gc.get_referents(cache)):
        raise OpaqueObject("the attribute __wrapped__ of a functools.lru_cache was set")
    return world.know(function)
