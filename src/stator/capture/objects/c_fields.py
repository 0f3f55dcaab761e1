"""What C fields of classes, functions and modules tell a program: names, bases, documentation.

Stage: capture. In: a class, a function, a thread or the name of a module, and what is asked. Out:
the answer, guarded: such fields can be set like any attribute, and no dict's version tells of it.
"""

import sys
import types
from abc import get_cache_token
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator.diagnostics.catalogue import InterpreterState
from stator.guards import (
    Callback,
    Code,
    Defaults,
    Equal,
    Field,
    Fixed,
    Is,
    IsNot,
    Key,
    KwDefaults,
    Slot,
    Source,
    State,
    TypeIs,
)
from stator.objects import TypeSet
from stator.objects.tracebacks import TRACEBACK
from stator.world import Record, World
from stator.world.kinds import CONSTANTS, is_frozen_class

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_PACKAGE: Final = str(Path(__file__).parents[2])
_MRO: Final[Any] = type.__dict__["__mro__"]
_FIELDS: Final = TypeSet(types.GetSetDescriptorType, types.MemberDescriptorType)
# What the getters of C answer with, and hold: the others make something new each time.
_OF_CLASSES: Final = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__bases__"})
CLASS_ANNOTATIONS: Final[Any] = objects.type_dict(type)["__annotations__"]
_DEFAULTS: Final = {"__defaults__": Defaults, "__kwdefaults__": KwDefaults}
_OF_FUNCTIONS: Final = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__annotate__"}
)


def _field(source: Source, descriptor: Any) -> Source:
    if type(descriptor) is types.MemberDescriptorType:
        return Slot(source, descriptor)
    return Field(source, descriptor)


def _guard(world: World, source: Source, value: Any) -> None:
    world.guard(source, Equal(value) if CONSTANTS.holds(type(value)) else Is(value))


def guard_mro(world: World, cls: type) -> None:
    """The program has asked what a class inherits from."""
    key = id(cls), "__mro__"
    if is_frozen_class(cls) or world.is_made(cls) or key in world.facts:
        return
    world.facts.add(key)
    # A member of classes up to Python 3.11, and a getter from then on.
    world.guard(_field(Fixed(cls), _MRO), Is(_MRO.__get__(cls)))


def guard_class_field(world: World, cls: type, name: str, descriptor: Any) -> None:
    """The program reads a field that all classes have, by the descriptor that `type` has for it."""
    if name in ("__mro__", "__base__"):
        guard_mro(world, cls)
    key = id(cls), name
    known = name in _OF_CLASSES and descriptor is type.__dict__.get(name)
    if not known or is_frozen_class(cls) or world.is_made(cls) or key in world.facts:
        return
    world.facts.add(key)
    _guard(world, _field(Fixed(cls), descriptor), descriptor.__get__(cls))


def has_annotations(world: World, cls: type) -> bool:
    """Whether a class existed before the call, and can have annotations."""
    return not is_frozen_class(cls) and not world.is_made(cls)


def class_annotations(world: World, cls: type) -> Any:
    """The annotations of a class. They are made when they are first asked for, and kept: that is
    done here for real, since the class would keep what the trace has made of them.
    """
    return world.wrap(CLASS_ANNOTATIONS.__get__(cls), Field(Fixed(cls), CLASS_ANNOTATIONS))


def guard_part(world: World, value: Any, name: str) -> None:
    """The program asks a property, or the like, what it is made of."""
    descriptor: Any = type(value).__dict__.get(name)
    key = id(value), name
    if _FIELDS.holds(type(descriptor)) and name != "__dict__" and key not in world.facts:
        world.facts.add(key)
        held = descriptor.__get__(value)
        same = Callback(lambda other: descriptor.__get__(other) is held, f"the same {name}")
        world.guard(world.origins[id(value)], same)


def guard_name(world: World, value: Any, cls: type) -> None:
    """C code makes a text of a value: the names of classes and functions are part of it."""
    if objects.is_subtype(cls, type):
        _guard_class_name(world, value)
    elif cls is types.FunctionType and id(value) in world.origins:
        function_field(world, value, "__qualname__")
    elif core.is_python_class(cls):
        _guard_class_name(world, cls)


def _guard_class_name(world: World, cls: type) -> None:
    for name in ("__module__", "__qualname__"):
        guard_class_field(world, cls, name, type.__dict__[name])


def guard_not_registered(world: World, abstract: Any, cls: type) -> None:
    """A class is no subclass of an abstract one; it may be registered as one later."""
    if world.is_made(abstract):
        return  # by the program itself, as in each call
    world.guard(Fixed(abstract), Callback(_NoSubclass(cls), f"not the base of {cls.__qualname__}"))


class _NoSubclass:
    """Asks again when any class has been registered."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._token = get_cache_token()

    def __call__(self, abstract: Any) -> bool:
        token = get_cache_token()
        if token != self._token:
            if issubclass(self._cls, abstract):
                return False
            self._token = token
        return True


def function_field(world: World, function: Any, name: str) -> None:
    """The program reads a field of a function that existed before the call."""
    descriptor = types.FunctionType.__dict__.get(name)
    source = world.origins[id(function)]
    key = id(function), name
    if name == "__code__":
        world.guard(Code(source), Is(function.__code__))
    if name in _OF_FUNCTIONS and _FIELDS.holds(type(descriptor)) and key not in world.facts:
        world.facts.add(key)
        _guard(world, _field(source, descriptor), descriptor.__get__(function))  # type: ignore[union-attr]


def keeps_field(world: World, function: Any, name: str, value: Any) -> bool:
    """A field of a function that existed before is set to the text that is there already."""
    if name not in _OF_FUNCTIONS or type(value) is not str:
        return False
    held = types.FunctionType.__dict__[name].__get__(function)
    if type(held) is not str or held != value:
        return False
    function_field(world, function, name)
    return True


def lacks_defaults(world: World, function: Any, name: str) -> bool:
    """The program asks a function that existed before for defaults, and it has none."""
    if name not in _DEFAULTS or getattr(function, name) is not None:
        return False
    world.guard(_DEFAULTS[name](world.origins[id(function)]), Is(None))
    return True


def function_part(world: World, function: Any, name: str) -> Any:
    """The defaults, annotations or attributes of a function that is pinned."""
    source = Fixed(function)
    value = getattr(function, name)
    if name == "__defaults__":
        return world.wrap(value, Defaults(source))
    if name == "__kwdefaults__":
        return world.wrap(value, KwDefaults(source))
    return world.wrap(value, Field(source, types.FunctionType.__dict__[name]))


def module_named(world: World, name: str) -> Any:
    """A module that is loaded."""
    module = sys.modules[name]
    key = id(sys.modules), name
    if key not in world.facts:
        world.facts.add(key)
        world.guard(Key(Fixed(sys.modules, "sys.modules"), name), Is(module))
    return world.know(module)


def look_outside(tracer: "Tracer") -> None:
    """The program asks for the exception being handled, and it may be its caller's."""
    source = State(core.get_handled_exception, (), "the exception being handled")
    if tracer.handled_outside is not None:
        tracer.world.guard(source, IsNot(None))
        reason = "the exception is used that the caller of the function is handling"
        raise InterpreterState(reason, whole=True)
    key = id(sys), "exception"
    if key not in tracer.world.facts:
        tracer.world.facts.add(key)
        tracer.world.guard(source, Is(None))


def guard_traceback(world: World, record: Record) -> None:
    """The program asks for the traceback of an exception that existed before the call."""
    key = id(record.raw), "__traceback__"
    if key not in world.facts:
        world.facts.add(key)
        check = Is(None) if record.traceback is None else TypeIs(types.TracebackType)
        world.guard(Field(record.source, TRACEBACK), check)


def inner_frame(found: types.FrameType | None) -> types.FrameType | None:
    """A frame that the program has reached: behind its own ones there are those of the tracer."""
    if found is not None and found.f_code.co_filename.startswith(_PACKAGE):
        raise InterpreterState("a frame is used that called the function")
    return found


def guard_thread(world: World) -> None:
    """The program asks which thread it runs in."""
    key = id(sys), "thread"
    if key not in world.facts:
        world.facts.add(key)
        world.guard(State(get_ident, (), "the running thread"), Equal(get_ident()))
