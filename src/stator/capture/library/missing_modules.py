"""Modules that are not there: `try: import x` of an optional library.

Stage: capture. In: the name of a module that is not loaded. Out: the exception that importing it
raises, guarded; None if it can be imported, which is left to CPython. What is installed is taken
for a fact of the process, as where a program asks for it (`importlib.util.find_spec`); where it is
looked for is guarded.
"""

import importlib.util
import sys
from types import ModuleType
from typing import Any

from stator.diagnostics.catalogue import Import
from stator.guards import Callback, Fixed, NoKey
from stator.world import World


def missing(world: World, name: str) -> ImportError | None:
    """What importing a module raises that cannot be found."""
    parent, _, _ = name.rpartition(".")
    while parent and parent not in sys.modules:  # the outermost package that is not loaded
        name, (parent, _, _) = parent, parent.rpartition(".")
    if name and parent and _is_plain_module(parent):
        return _not_in_a_package(world, name, parent)
    if not name or (parent and not _is_package(parent)) or _is_found(name):
        return None
    modules: Any = Fixed(sys.modules, "sys.modules")
    key = id(sys.modules), name
    if key not in world.facts:
        world.facts.add(key)
        world.guard(modules, NoKey(name))
        world.guard(Fixed(sys), Callback(_Places(), "modules are looked for in the same places"))
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


def _not_in_a_package(world: World, name: str, parent: str) -> ImportError:
    """As `_find_and_load_unlocked`, for a module "in" one that is no package."""
    module = sys.modules[parent]
    world.guard(Fixed(sys.modules, "sys.modules"), NoKey(name))
    same = Callback(
        lambda system: system.modules.get(parent) is module and _is_plain_module(parent),
        f"{parent} is no package",
    )
    world.guard(Fixed(sys), same)
    text = f"No module named {name!r}; {parent!r} is not a package"
    error = ModuleNotFoundError(text, name=name)
    error.__cause__ = None
    error.__suppress_context__ = True
    return error


def _is_plain_module(name: str) -> bool:
    """Whether a module has no `__path__`, and nobody makes one."""
    module: Any = sys.modules[name]
    return type(module) is ModuleType and not {"__path__", "__getattr__"} & vars(module).keys()


def imported(name: str) -> Import:
    """Why a trace ends that imports a module which is there, but not loaded."""
    signal = Import(f"the module {name} is imported", "import it before the compiled function")
    signal.module = name
    return signal


def _is_package(name: str) -> bool:
    return type(getattr(sys.modules[name], "__path__", None)) is list


def _is_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:  # a finder that is the program's own
        return True


class _Places:
    """Whether modules are looked for by the same finders, in the same folders."""

    def __init__(self) -> None:
        self._finders = list(sys.meta_path)
        self._folders = list(sys.path)

    def __call__(self, system: Any) -> bool:
        finders = system.meta_path
        same = len(finders) == len(self._finders) and all(
            a is b for a, b in zip(finders, self._finders, strict=True)
        )
        return same and bool(system.path == self._folders)
