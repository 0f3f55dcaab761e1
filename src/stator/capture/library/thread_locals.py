"""Attributes of `threading.local` objects: those of the calling thread.

Stage: capture, for `Attributes`. In: such an object of the world. Out: the values in the dict that
the thread has in it. The guard is that it has this very dict: other threads have others, and are
compiled for on their own.

A thread's first look at a subclass with an `__init__` of its own runs that, so it is not followed.
Whether there was one is asked of the dict in which CPython keeps what threads have.
"""

import _thread
import ctypes
import types
from collections.abc import Callable
from typing import Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import NULL, Frame, is_python_class
from stator.capture.objects.names import store_name
from stator.capture.trace.refusals import unseen
from stator.guards import Callback, Fixed, Is, State
from stator.world import MISSING, Record, World

_LOCAL: Final[Any] = _thread._local
_OWN: Final = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")


def is_thread_local(cls: type) -> bool:
    """Whether instances are thread locals that run no code of the user."""
    if cls is _LOCAL:
        return True
    if not objects.is_subtype(cls, _LOCAL):
        return False
    found = (objects.lookup(cls, name) for name in _OWN)
    return all(each is None or not is_python_class(each.owner) for each in found)


def _runs_code(cls: type) -> bool:
    """Whether a thread's first look runs an `__init__` of the user."""
    found = objects.lookup(cls, "__init__")
    return found is not None and is_python_class(found.owner)


# What it returns is borrowed: as an object, ctypes would release it.
_of_thread: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_GetDict", ctypes.pythonapi))


def namespace_of(local: Any) -> dict[str, Any] | None:
    """The calling thread's dict; None if it has none, and making one would run code of the user.

    The name is that of `_local_create_dummy`.
    """
    if _runs_code(type(local)):
        kept = _of_thread()
        if kept is None:
            return None
        of_thread: dict[str, Any] = ctypes.cast(kept, ctypes.py_object).value
        if f"thread.local.{id(local):#x}" not in of_thread:
            return None
    found: dict[str, Any] = vars(local)
    return found


def _refusal(local: Any, function: Callable[[Any, str], object], name: str) -> AttributeError:
    """What CPython says of an object without values; 3.14 tells more where one is deleted."""
    try:
        function(_LOCAL.__new__(type(local)), name)
    except AttributeError as error:
        if error.name is None:
            return AttributeError(str(error))
        return AttributeError(str(error), name=name, obj=local)
    raise AssertionError(name)


class ThreadLocals:
    """Those of one trace."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._records: dict[int, Record] = {}

    def namespace(self, local: Any) -> Record:
        """The record of the calling thread's dict."""
        record = self._records.get(id(local))
        if record is None:
            world = self._world
            world.pin(local)
            raw = namespace_of(local)
            name = f"__dict__ of {world.origins[id(local)]} in this thread"
            if _runs_code(type(local)):
                check = Callback(lambda asked: namespace_of(asked) is raw, f"has {name}")
                world.guard(Fixed(local), check)
            else:
                world.guard(State(vars, (local,), name), Is(raw))
            if raw is None:
                raise unseen(world, local, "a thread looks at {} for the first time")
            record = self._records[id(local)] = world.namespace(raw)
        return record

    def getattr(self, frame: Frame, local: Any, name: str) -> Any:
        """As `local_getattro`: the class's data descriptors, the thread's dict, the class."""
        world, cls = self._world, type(local)
        if id(local) not in world.origins:
            return core.getattr(frame, local, name)
        record = self.namespace(local)
        if name == "__dict__":
            return record.shadow
        found = world.class_attribute(cls, name)
        if found is None or objects.lookup(type(found.value), "__set__") is None:
            value = world.lookup(record, name)
            if value is not MISSING:
                return value
        if found is None:
            core.raise_user(_refusal(local, getattr, name))
        if type(found.value) is types.FunctionType:
            world.know(found.value)
            return types.MethodType(found.value, local)
        raise unseen(world, local, f"an attribute of {{}} is read: {name}")

    def store(self, local: Any, name: str, value: Any) -> None:
        """Sets an attribute; NULL deletes it."""
        world, record = self._world, self.namespace(local)
        found = world.class_attribute(type(local), name)
        if found is not None or name == "__dict__":
            raise unseen(world, local, f"an attribute of {{}} is set: {name}")
        if value is NULL and world.lookup(record, name) is MISSING:
            core.raise_user(_refusal(local, delattr, name))
        store_name(world, record, name, value)
