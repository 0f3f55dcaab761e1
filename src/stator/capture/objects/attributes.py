"""Attributes in a traced program: read as CPython would find them, written to shadows.

In: an object of any regime and a name. Out: the value, with guards on the places that were looked
into, the classes' included. What runs code (properties, `__getattr__`) is left to CPython.
"""

import enum
import functools
import io
import types
import typing
import weakref
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import NULL, CompiledFunction, Frame, is_python_class
from stator.capture.calls import operator_names
from stator.capture.calls.held_callables import callee
from stator.capture.calls.native_calls import known_number
from stator.capture.calls.wrapped_functions import compiled_attribute
from stator.capture.library.locks import is_lock
from stator.capture.library.thread_locals import ThreadLocals, is_thread_local
from stator.capture.numbers import number_methods
from stator.capture.objects import torch_values
from stator.capture.objects.c_fields import (
    CLASS_ANNOTATIONS,
    class_annotations,
    function_field,
    function_part,
    guard_class_field,
    guard_mro,
    guard_part,
    guard_traceback,
    has_annotations,
    inner_frame,
    keeps_field,
    lacks_defaults,
    look_outside,
)
from stator.capture.objects.names import Names
from stator.capture.objects.weak_references import CALLBACK, callback
from stator.capture.tensors.subclasses import Behind
from stator.capture.tensors.tensors import Tensors
from stator.capture.texts.printing import file_method
from stator.capture.trace.refusals import unseen
from stator.contracts import Depth
from stator.diagnostics.catalogue import (
    ArrayChanged,
    ClassChanged,
    InterpreterState,
    OddNamespace,
    OpaqueObject,
    UnknownCFunction,
)
from stator.effects.texts import Text
from stator.guards import Attr, AttrKeys, Fixed, NoAttr, TypeIs
from stator.objects.attributes import is_data_descriptor, is_descriptor
from stator.objects.tracebacks import TRACEBACK
from stator.world import MISSING, Record, World
from stator.world.classes import refuse_odd
from stator.world.fields import same_names
from stator.world.kinds import is_frozen_class, is_torch_value
from stator.world.records import MAXLEN

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_FUNCTION: Final = types.FunctionType
_UNREAD: Final = object()
_GETATTRIBUTE: Final = objects.type_dict(object)["__getattribute__"]
# Others that read attributes in the same way, by a `__getattribute__` that they have themselves.
_PLAINLY_READ: Final = objects.TypeSet(
    types.BuiltinFunctionType, types.MethodWrapperType, types.GeneratorType, memoryview
)
_READERS: Final = objects.instance_dict(typing), objects.instance_dict(enum)
_PLAIN_KIND: Final = object()
_WRAPPING: Final = objects.TypeSet(property, staticmethod, classmethod)
_HOOKS: Final = frozenset({"__getattribute__", "__setattr__", "__delattr__"})  # of C types
_FUNCTION_FIELDS: Final = frozenset({"__closure__", "__code__", "__name__", "__qualname__"})
_FUNCTION_PARTS: Final = frozenset(
    {"__defaults__", "__kwdefaults__", "__dict__", "__annotations__"}
)


def _is_field(found: Any) -> bool:
    """Whether what a class has by a name is a field of C, whose setter is particular."""
    return found is not None and type(found.value) is types.GetSetDescriptorType


def _is_plainly_read(cls: type) -> bool:
    """A C class whose objects have the attributes that the class has, and no others."""
    getter = objects.lookup(cls, "__getattribute__")
    fixed = is_frozen_class(cls) and objects.lookup(cls, "__getattr__") is None
    plain = getter is not None and getter.value is _GETATTRIBUTE
    return fixed and (plain or _PLAINLY_READ.holds(cls))


def is_c_method(hook: Any) -> bool:
    """A method of a C type in the place of a hook for attributes: `__getattr__ = dict.get`."""
    return (
        type(hook) is types.MethodDescriptorType or type(hook) is types.WrapperDescriptorType
    ) and hook.__name__ not in _HOOKS


class Attributes(Names):
    """The part of a tracer that knows attributes."""

    calls: "Calls"

    def __init__(self, tensors: Tensors, world: World) -> None:
        super().__init__(tensors, world)
        self._kinds: dict[int, Any] = {}
        self._raw_values: dict[tuple[int, str], Any] = {}
        self._described: set[int] = set()  # ids of classes, see `_is_descriptor`
        self._modules: set[int] = set()  # ids of those whose class is guarded
        self.thread_locals = ThreadLocals(world)

    def getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        cls = type(obj)
        kind = self._kinds.get(id(cls))
        if kind is None:
            kind = self._kind(cls)
        if kind is not _PLAIN_KIND:
            return kind(frame, obj, name)
        return self._plain_getattr(frame, obj, name)

    def _plain_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        cls = type(obj)
        record = self.world.records.get(id(obj))
        if record is None:
            if name == "__dict__":
                self.calls.streams.check_store(obj, cls, name)
            if is_lock(cls):
                return core.getattr(frame, obj, name)
            if id(obj) in self.world.opaque:
                if self.calls.streams.holds(obj):
                    return self.calls.streams.attribute(frame, obj, name)
                return self._opaque_getattr(frame, obj, name)
            if cls is types.FunctionType and self.world.is_world(obj):
                return self._function_getattr(frame, obj, name)
            if cls is types.CellType and name == "cell_contents":
                value = self.load_cell(frame, obj)
                if value is NULL:
                    return core.getattr(frame, obj, name)
                return value
        if not is_python_class(cls) and record is None:
            if cls is types.FrameType and name in ("f_globals", "f_builtins"):
                return self.namespace(core.getattr(frame, obj, name)).shadow
            if cls is types.FrameType and name == "f_back":
                return inner_frame(core.getattr(frame, obj, name))
            if name == "__context__":
                look_outside(self.calls.tracer)
            if _WRAPPING.holds(cls) and id(obj) in self.world.origins:
                guard_part(self.world, obj, name)
            if id(obj) in self.world.origins and objects.instance_dict(obj) is not None:
                return self.generic_getattr(frame, obj, name, None, core.getattr)
            value = core.getattr(frame, obj, name)
            return self.calls.stand_ins.get(id(value), value)  # a hook that C code calls
        getter = self.world.class_attribute(cls, "__getattribute__")
        if getter is not None and type(getter.value) is types.FunctionType:
            return core.getattr(frame, obj, name)
        return self.generic_getattr(frame, obj, name, record, core.getattr)

    def _kind(self, cls: type) -> Any:
        """How attributes of instances of a class are read, if not in the general way."""
        kind: Any = _PLAIN_KIND
        if self.tensors.holds(cls):
            kind = self.tensors.attributes.getattr
        elif self.arrays.holds(cls):
            kind = self.arrays.getattr
        elif objects.is_subtype(cls, type):
            kind = self._class_getattr
        elif objects.is_subtype(cls, types.ModuleType):
            kind = self._module_getattr
        elif cls is types.MethodType:
            kind = self._method_getattr
        elif operator_names.PACKETS.holds(cls):
            kind = self._packet_getattr
        elif is_thread_local(cls):
            kind = self.thread_locals.getattr
        elif cls is super:
            kind = self._super_getattr
        elif objects.is_subtype(cls, weakref.ref):
            kind = self._reference_getattr
        elif cls is io.TextIOWrapper or cls is io.BufferedReader or cls is io.FileIO:
            kind = self._file_getattr
        elif is_torch_value(cls):
            kind = self._value_getattr
        elif cls is Behind:
            kind = self.tensors.subclasses.behind
        elif self.tensors.types.holds(cls):
            kind = self._symbol_getattr
        self.world.keep(cls)
        self._kinds[id(cls)] = kind
        return kind

    def generic_getattr(
        self, frame: Frame, obj: Any, name: str, record: Record | None, native: Any
    ) -> Any:
        """As `PyObject_GenericGetAttr`; what it will read is filled in.

        `native` is CPython's own way to do it: `getattr`, which goes on with `__getattr__`, or the
        bare `object.__getattribute__`.
        """
        world, cls = self.world, type(obj)
        found = world.class_attribute(cls, name)
        if found is not None and self._is_data(found.value):
            if record is not None:
                if name == "__dict__":
                    return world.dict_of(record)
                if type(found.value) is types.MemberDescriptorType:
                    self.world.fill_slots(record)
                if found.value is TRACEBACK:
                    guard_traceback(world, record)
                elif found.value is MAXLEN:
                    world.guard_limit(record)
            elif name == "__dict__" and type(found.value) is types.GetSetDescriptorType:
                self._refuse_dict(frame, obj)
            if name == "__context__":
                look_outside(self.calls.tracer)
            world.class_attribute(cls, "__getattr__")  # asked if the descriptor has no value
            if type(found.value) is property and found.value.fget is not None:
                getter = callee(self.calls, found.value.fget)
                if getter is not found.value.fget:  # C code, which asks nobody what it reads
                    if world.class_attribute(cls, "__getattr__") is not None:
                        raise UnknownCFunction(f"the property {name} is read by C code")
                    return core.call(frame, functools.partial(getter, obj), [], None)
            return native(frame, obj, name)
        if record is not None:
            value = self.world.attribute(record, name)
        else:
            value = self.own_attribute(obj, name)
        if value is not MISSING:
            return value
        if found is None:
            hook = world.class_attribute(cls, "__getattr__")
            if hook is not None and native is core.getattr and is_c_method(hook.value):
                return self.calls.native(frame, hook.value, [obj, name], None)
            refuse_odd(cls, "__getattr__", hook)
            return native(frame, obj, name)
        if type(found.value) is types.FunctionType:
            world.know(found.value)
            return types.MethodType(found.value, obj)
        if self._is_descriptor(found.value):
            world.class_attribute(cls, "__getattr__")
            return native(frame, obj, name)
        return self.world.class_value(found.owner, name, found.value)

    def _refuse_dict(self, frame: Frame, obj: Any) -> None:
        """An object that is taken as it is: its dict could be changed behind the guards.

        The modules typing and enum look into the dicts of their own objects, for names.
        """
        source = self.world.origins.get(id(obj))
        if source is not None and any(frame.globals is each for each in _READERS):
            self.world.guard(source, AttrKeys(tuple(objects.instance_dict(obj) or ())))
        elif source is not None:
            kind = type(obj).__name__
            raise OpaqueObject(f"the __dict__ of an object of type {kind} is read")

    def own_attribute(self, obj: Any, name: str) -> Any:
        """What an object has in its own dict: one made in the trace, or held raw (an enum's)."""
        own = objects.instance_dict(obj)
        value = MISSING if own is None else dict.get(own, name, MISSING)
        source = self.world.origins.get(id(obj))
        if own is None or source is None:
            return value
        key = id(obj), name
        if key not in self._raw_values:
            if value is MISSING:
                self.world.guard(source, NoAttr(name))
            else:
                value = self.world.wrap(value, Attr(source, name))
            self._raw_values[key] = value
        return self._raw_values[key]

    def _is_data(self, value: Any) -> bool:
        """Whether an attribute of a class is a data descriptor: a fact of the attribute's class."""
        self._is_descriptor(value)
        return is_data_descriptor(value)

    def _is_descriptor(self, value: Any) -> bool:
        cls = type(value)
        if is_python_class(cls) and id(cls) not in self._described:
            self._described.add(id(cls))
            for name in ("__get__", "__set__", "__delete__"):
                refuse_odd(cls, name, self.world.class_attribute(cls, name))
        return is_descriptor(value)

    def descriptor(self, raw: Any, *holders: Any) -> Any:
        """What stands for a descriptor that C code has found in a class and calls.

        `holders` are the objects whose attribute it may be: the class is one of theirs.
        """
        if self.world.is_world(raw) or not is_python_class(type(raw)):
            return raw
        for holder in holders:
            classes = objects.mro(type(holder))
            if objects.is_subtype(type(holder), type):
                classes += objects.mro(holder)
            for owner in classes:
                if self.world.is_made(owner):
                    continue
                for name, value in objects.type_dict(owner).items():
                    if value is raw and type(name) is str:
                        return self.world.class_value(owner, name, raw)
        return raw

    def _class_getattr(self, frame: Frame, cls: Any, name: str) -> Any:
        """As `type_getattro`."""
        world = self.world
        meta = type(cls)
        getter = world.class_attribute(meta, "__getattribute__")
        if getter is not None and type(getter.value) is types.FunctionType:
            return core.getattr(frame, cls, name)
        on_meta = world.class_attribute(meta, name)
        if on_meta is not None and self._is_data(on_meta.value):
            if name == "__dict__":
                return self._class_dict(cls)
            if on_meta.value is CLASS_ANNOTATIONS and has_annotations(world, cls):
                return class_annotations(world, cls)
            guard_class_field(world, cls, name, on_meta.value)
            return core.getattr(frame, cls, name)
        found = world.class_attribute(cls, name)
        if found is not None:
            value = found.value
            if type(value) is types.FunctionType:
                return world.know(value)
            if self._is_descriptor(value):
                return core.getattr(frame, cls, name)
            return self.world.class_value(found.owner, name, value)
        if on_meta is None or self._is_descriptor(on_meta.value):
            return core.getattr(frame, cls, name)
        return self.world.class_value(on_meta.owner, name, on_meta.value)

    def _reference_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """A weak reference: another callback stands for the program's own."""
        if name != "__callback__" or id(obj) in self.world.opaque:
            return self._plain_getattr(frame, obj, name)
        found = self.world.class_attribute(type(obj), name)
        if found is None or found.value is not CALLBACK:
            return self._plain_getattr(frame, obj, name)
        return callback(self.calls, obj)

    def _file_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        self.calls.files.attribute(frame, obj, name)
        return self._plain_getattr(frame, obj, name)

    def _symbol_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        return number_methods.attribute(self.calls, frame, obj, name)

    def _class_dict(self, cls: type) -> Any:
        """A class's own namespace, as a view of a copy whose values are wrapped."""
        if self.world.is_made(cls):
            return objects.type_dict(cls)
        namespace = {}
        for name in objects.type_dict(cls):
            if type(name) is not str:
                raise OddNamespace("a class has attributes whose names are not strings")
            found = self.world.class_attribute(cls, name)
            assert found is not None
            namespace[name] = self.world.class_value(cls, name, found.value)
        self.world.guard(Fixed(cls), same_names(cls))
        return types.MappingProxyType(namespace)

    def _module_getattr(self, frame: Frame, module: Any, name: str) -> Any:
        namespace = objects.instance_dict(module)
        if namespace is None or not self.world.is_world(module):
            return core.getattr(frame, module, name)
        if id(module) not in self._modules:
            self._modules.add(id(module))
            self.world.guard(Fixed(module), TypeIs(type(module)))
        if name == "__dict__":
            return self.namespace(namespace).shadow
        if type(module) is not types.ModuleType:
            if operator_names.NAMESPACES.holds(type(module)):
                operator_names.find(module, name)
            self.world.protocol(type(module), ("__getattr__", "__getattribute__"))
            getter = self.world.class_attribute(type(module), "__getattribute__")
            found = self.world.class_attribute(type(module), name)
            evaluated = getter is not None and type(getter.value) is types.FunctionType
            if evaluated or (found is not None and self._is_data(found.value)):
                return core.getattr(frame, module, name)
        if name == "__warningregistry__":  # a cache, which is not followed
            core.raise_user(AttributeError(f"a module has no attribute {name!r}"))
        value = self.namespace_value(namespace, name)
        if value is not MISSING:
            return value
        if name == "__annotations__" and type(module) is types.ModuleType:
            made = self._module_annotations(frame, namespace)
            self.store_namespace(namespace, name, made)
            return made
        self.namespace_value(namespace, "__getattr__")
        if name == "__dir__":  # C code, bound to the module itself
            record = self.namespace(namespace)
            if record.writes or record.filled:
                raise InterpreterState("dir() of a module that the call has changed")
            self.world.guard(Fixed(module), AttrKeys(tuple(dict.__iter__(namespace))))
        return core.getattr(frame, module, name)

    def _module_annotations(self, frame: Frame, namespace: dict[str, Any]) -> Any:
        """CPython makes them when they are asked for, since 3.14 by a function."""
        annotate = self.namespace_value(namespace, "__annotate__")
        if "__annotate__" not in types.FunctionType.__dict__ or type(annotate) is not _FUNCTION:
            return {}
        return core.call(frame, functools.partial(annotate, 1), [], None)

    def _packet_getattr(self, frame: Frame, packet: Any, name: str) -> Any:
        """An operator with its overloads."""
        operator_names.find(packet, name)
        record = self.world.records.get(id(packet))
        if record is None and id(packet) in self.world.opaque:
            return self._opaque_getattr(frame, packet, name)
        return self.generic_getattr(frame, packet, name, record, core.getattr)

    def _value_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        return torch_values.getattr_of(self.world, obj, name)

    def _method_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """As `method_getattro`: what a method has not itself, its function has."""
        if objects.lookup(types.MethodType, name) is not None:
            return core.getattr(frame, obj, name)
        return self.getattr(frame, obj.__func__, name)

    def _super_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """As `super_getattro`: the MRO of the object's class, behind the class named."""
        this = super.__dict__["__thisclass__"].__get__(obj)
        start = super.__dict__["__self_class__"].__get__(obj)
        target = super.__dict__["__self__"].__get__(obj)
        if start is None or name == "__class__":
            return core.getattr(frame, obj, name)
        order = objects.mro(start)
        guard_mro(self.world, start)
        position = next((i for i, cls in enumerate(order) if cls is this), len(order))
        for owner in order[position + 1 :]:
            self.world.class_attribute(owner, name)  # guarded, also if it is not there
            if name not in objects.type_dict(owner):
                continue
            value = objects.type_dict(owner)[name]
            if type(value) is types.FunctionType:
                self.world.know(value)
                return value if target is start else types.MethodType(value, target)
            if self._is_descriptor(value):
                if type(value) is types.GetSetDescriptorType and name == "__dict__":
                    return self.getattr(frame, target, name)
                return core.getattr(frame, obj, name)
            return self.world.class_value(owner, name, value)
        return core.getattr(frame, obj, name)

    def _function_getattr(self, frame: Frame, function: Any, name: str) -> Any:
        """Fields of a function that existed before the call."""
        if lacks_defaults(self.world, function, name):
            return None
        if name not in _FUNCTION_FIELDS:
            self.world.pin(function)
        if name in _FUNCTION_PARTS:
            return function_part(self.world, function, name)
        if name == "__globals__":
            return self.namespace(function.__globals__).shadow
        found = objects.lookup(types.FunctionType, name)
        if found is None or not is_data_descriptor(found.value):
            function_part(self.world, function, "__dict__")
            value = self.namespace_value(function.__dict__, name)
            if value is not MISSING:
                return value
        function_field(self.world, function, name)
        return core.getattr(frame, function, name)

    def _opaque_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """Attributes that an object holds in a dict can be read, whatever else it is."""
        world, cls = self.world, type(obj)
        if self.tensors.nodes.holds(obj):
            return self.tensors.nodes.getattr(obj, name)
        if id(obj) not in world.origins:
            raise unseen(world, obj, f"an attribute of {{}} is read: {name}")
        if cls is CompiledFunction:
            return compiled_attribute(self, frame, obj, name)
        found = world.class_attribute(cls, name)
        own = objects.instance_dict(obj)
        if found is None or not self._is_data(found.value):
            raw = MISSING if own is None else dict.get(own, name, MISSING)
            if raw is not MISSING:
                key = id(obj), name
                if key not in self._raw_values:
                    source = Attr(world.origins[id(obj)], name)
                    self._raw_values[key] = self.world.wrap(raw, source)
                return self._raw_values[key]
            if own is not None:
                world.guard(world.origins[id(obj)], NoAttr(name))
        if found is not None and type(found.value) is types.FunctionType:
            world.know(found.value)
            return types.MethodType(found.value, obj)
        if found is None and own is None and _is_plainly_read(cls):
            return core.getattr(frame, obj, name)  # raises
        written = file_method(obj, name, found)
        if written is not None:
            return written
        method = None if found is None else self.tensors.own.draws.method(obj, found.value)
        if method is not None:
            return method
        raise unseen(world, obj, f"an attribute of {{}} is read: {name}")

    def setattr(self, frame: Frame, obj: Any, name: str, value: Any) -> None:
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        cls = type(obj)
        if self.tensors.holds(cls):
            self.tensors.attributes.setattr(frame, obj, name, value)
            return
        if self.arrays.is_symbolic(obj):
            raise ArrayChanged(f"the attribute {name} of an array is set")
        if self.tensors.types.holds(cls):
            obj = self.tensors.shapes.plain(frame, obj)  # a number, which takes none
            cls = type(obj)
        if not self.may_store(frame, obj, name, value):
            return
        self.calls.streams.check_store(obj, cls, name)
        hook = self.world.class_attribute(cls, "__setattr__")
        if hook is not None and is_c_method(hook.value):
            self.calls.native(frame, hook.value, [obj, name, value], None)
            return
        refuse_odd(cls, "__setattr__", hook)
        if self.tensors.types.holds(type(value)):
            if _is_field(objects.lookup(cls, name)):
                value = known_number(self.calls, frame, value, f"{cls.__qualname__}.{name}")
        elif type(value) is Text and _is_field(objects.lookup(cls, name)):
            raise unseen(self.world, value, f"{cls.__qualname__}.{name} reads {{}}")
        self.store_ready(obj, name)
        core.setattr(frame, obj, name, value)
        if objects.is_subtype(cls, type):
            self.world.class_changed()
        self.stored(obj, name)

    def delattr(self, frame: Frame, obj: Any, name: str) -> None:
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        cls = type(obj)
        if self.tensors.holds(cls):
            self.tensors.attributes.delattr(frame, obj, name)
            return
        if self.tensors.types.holds(cls):
            obj = self.tensors.shapes.plain(frame, obj)
            cls = type(obj)
        if not self.may_store(frame, obj, name, NULL):
            return
        hook = self.world.class_attribute(cls, "__delattr__")
        if hook is not None and is_c_method(hook.value):
            self.calls.native(frame, hook.value, [obj, name], None)
            return
        refuse_odd(cls, "__delattr__", hook)
        self.delete_ready(obj, name)
        core.delattr(frame, obj, name)
        self.deleted(obj, name)

    def may_store(self, frame: Frame, obj: Any, name: str, value: Any) -> bool:
        """Whether CPython may carry a store out; namespaces held raw are written by overlay."""
        cls = type(obj)
        if not self.world.is_world(obj) or id(obj) in self.world.records:
            if name == "__dict__" or name == "__class__":
                if id(obj) in self.world.records:
                    raise ClassChanged(f"{name} of an object is replaced")
                if value is not NULL:
                    self.values.ready(value, Depth.SHALLOW)
            return True
        if objects.is_subtype(cls, types.ModuleType):
            namespace = objects.instance_dict(obj)
            assert namespace is not None
            if value is NULL and self.namespace_value(namespace, name) is MISSING:
                text = f"{cls.__name__!r} object has no attribute {name!r}"
                core.raise_user(AttributeError(text))
            self.store_namespace(namespace, name, value)
            return False
        if cls is types.CellType and name == "cell_contents":
            self.store_cell_value(obj, value)
            return False
        if is_thread_local(cls):
            self.thread_locals.store(obj, name, value)
            return False
        if cls is types.FunctionType and objects.lookup(cls, name) is None:
            self.world.pin(obj)
            function_part(self.world, obj, "__dict__")
            if value is NULL and self.namespace_value(obj.__dict__, name) is MISSING:
                core.raise_user(AttributeError(f"'function' object has no attribute {name!r}"))
            self.store_namespace(obj.__dict__, name, value)
            return False
        if cls is types.FunctionType and keeps_field(self.world, obj, name, value):
            return False
        if objects.is_subtype(cls, type) and id(obj) not in self.world.made_classes:
            setter = objects.lookup(cls, "__setattr__" if value is not NULL else "__delattr__")
            if setter is not None and type(setter.value) is types.FunctionType:
                return True  # which goes on to `type.__setattr__`
            if value is not NULL and self._plain_metaclass(cls):
                self.store_class(frame, obj, name, value)
                return False
        what = "a class" if objects.is_subtype(cls, type) else f"an object of type {cls.__name__}"
        raise ClassChanged(f"an attribute of {what} that existed before the call is set: {name}")

    def store_class(self, frame: Frame, cls: type, name: str, value: Any) -> None:
        """As `type.__setattr__`; what a class that existed before holds is written at the end."""
        if self._sets(type(cls), name):
            core.call(frame, type.__setattr__, [cls, name, value], None)
            return
        if id(cls) in self.world.made_classes or is_frozen_class(cls):
            try:
                type.__setattr__(cls, name, value)
            except (TypeError, AttributeError) as error:
                core.raise_user(error)
            return
        self.world.write_class(cls, name, value)

    def _sets(self, meta: type, name: str) -> bool:
        """Whether a store in a class runs code: its metaclass has a property of that name."""
        found = self.world.class_attribute(meta, name)
        if found is None or type(found.value) is types.GetSetDescriptorType:
            return False
        return self.world.class_attribute(type(found.value), "__set__") is not None

    def _plain_metaclass(self, meta: type) -> bool:
        found = objects.lookup(meta, "__setattr__")
        return found is not None and found.owner is type

    def store_ready(self, obj: Any, name: str) -> None:
        """An attribute is about to be written; slots are filled all at once."""
        self.world.touch(obj, name)
        record = self.world.records.get(id(obj))
        if record is not None and objects.slots(type(obj)).get(name) is not None:
            self.world.fill_slots(record)

    def stored(self, obj: Any, name: str) -> None:
        """A store is done. If it reached the instance's dict, what was there does not matter.

        It need not: a property or a `__setattr__` decides, and may refuse.
        """
        record = self.world.records.get(id(obj))
        if record is None or record.dict is None or record.attributes_filled:
            return
        if dict.__contains__(record.dict, name):
            self.world.raw_attributes(record)
            record.attributes.setdefault(name, _UNREAD)

    def delete_ready(self, obj: Any, name: str) -> None:
        """An attribute is about to be deleted: whether it was there matters."""
        self.world.touch(obj, name)
        record = self.world.records.get(id(obj))
        if record is None:
            return
        if record.attributes.get(name) is _UNREAD and not record.attributes_filled:
            self.world.first_attribute(record, name)
        self.world.attribute(record, name)
        self.world.fill_slots(record)

    def deleted(self, obj: Any, name: str) -> None:
        """A deletion is done, if a `__delattr__` has not refused: a new value is a new entry."""
        record = self.world.records.get(id(obj))
        if record is not None and record.dict is not None and name not in record.dict:
            record.deleted.add(name)
