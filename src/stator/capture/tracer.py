"""The tracer: the evaluator's operations, carried out on the traced world.

In: what an instruction asks for, on real objects: shadows, fake tensors, objects made in the trace.
Out: the result, with every read of the world guarded and every torch call recorded. Everything
else CPython does itself (`core`), after the values it will look at have been made ready.
"""

import functools
import linecache
import types
from collections import OrderedDict, defaultdict
from typing import Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import NULL, Frame, is_python_class
from stator.capture import operators
from stator.capture.breaks import Break, Place, stack
from stator.capture.calls import Calls, is_lock
from stator.capture.tensors import Tensors
from stator.capture.values import Values
from stator.contracts import Depth
from stator.evaluator import InternalError
from stator.evaluator.loop import evaluate
from stator.guards import Attr, CellContents, Fixed, NoAttr, Source
from stator.objects import TypeSet
from stator.objects.attributes import is_data_descriptor, is_descriptor
from stator.world import MISSING, Opaque, Record, World
from stator.world.world import is_frozen_class

_PLAIN_SIZED: Final = TypeSet(list, dict, OrderedDict, defaultdict)
_CELL_CONTENTS: Final = types.CellType.__dict__["cell_contents"]
_UNREAD: Final = object()
_PLAIN_KIND: Final = object()
_FUNCTION_FIELDS: Final = frozenset({"__closure__", "__code__", "__name__", "__qualname__"})


class Tracer:
    """The `Operations` of one trace."""

    def __init__(self, tensors: Tensors, world: World) -> None:
        self.world = world
        self.tensors = tensors
        self.arrays = tensors.arrays
        self.values = Values(world, tensors.types, tensors.arrays.types)
        self.calls = Calls(self)
        self.stopped: Break | None = None
        self._held: list[Any] = []
        self._namespaces: dict[int, Record] = {}  # by id of the raw dict
        self.own_namespaces: set[int] = set()  # ids of those that the program made
        self.cells: dict[int, Any] = {}  # contents of world cells, read or written
        self.written_cells: dict[int, types.CellType] = {}
        self._kinds: dict[int, Any] = {}
        self._opaque_values: dict[tuple[int, str], Any] = {}
        self._depth = 0  # frames that C code has started, the first one included

    # ------------------------------------------------------------------ frames

    def evaluate(self, frame: Frame) -> bool:
        """Runs a frame that C code has started."""
        if self.stopped is not None:
            frame.result = self.stopped
            frame.finish()
            return False
        if frame.thrown is None:
            try:
                answered = self.calls.answer_frame(frame)
            except Break as signal:
                frame.result = self.stop(frame, signal)
                frame.finish()
                return False
            except BaseException as error:
                if not core.is_user_error(error):
                    error = InternalError.at(frame, error)
                frame.result = error
                frame.finish()
                return False
            if answered:
                return True
        self._depth += 1
        done = evaluate(frame)
        self._depth -= 1
        try:
            if done:
                if self._depth:  # C code gets it, and may look into it
                    self.values.ready(frame.result, Depth.DEEP)
                return True
        except Break as signal:
            frame.result = signal
        if type(frame.result) is Break and self.stopped is None:
            self.stopped = frame.result
        return False

    def close(self) -> None:
        """Lets go of the world: the parts of a tracer refer to each other in circles."""
        for part in (self.calls, self.values, self.tensors, self.world, self):
            part.__dict__.clear()

    def hold_generators(self) -> None:
        """The trace is broken off: suspended generators must not be closed by CPython."""
        self._held += [reference() for reference in self.calls.generators]

    def stop(self, frame: Frame, signal: Break) -> Break:
        """Notes why the trace ends, in case C code swallows the signal."""
        signal.at(frame)
        if self.stopped is None:
            self.stopped = signal
        return self.stopped

    def wrap(self, raw: Any, source: Source) -> Any:
        try:
            return self.world.wrap(raw, source)
        except Opaque as error:
            raise Break(str(error)) from None

    # ------------------------------------------------------------------ attributes

    def getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        cls = type(obj)
        kind = self._kinds.get(id(cls))
        if kind is None:
            kind = self._kind(cls)
        if kind is not _PLAIN_KIND:
            return kind(frame, obj, name)
        record = self.world.records.get(id(obj))
        if record is None:
            if is_lock(cls):
                return core.getattr(frame, obj, name)
            if id(obj) in self.world.opaque:
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
            return core.getattr(frame, obj, name)
        getter = self.world.class_attribute(cls, "__getattribute__")
        if getter is not None and type(getter.value) is types.FunctionType:
            return core.getattr(frame, obj, name)
        return self.generic_getattr(frame, obj, name, record, core.getattr)

    def _kind(self, cls: type) -> Any:
        """How attributes of instances of a class are read, if not in the general way."""
        kind: Any = _PLAIN_KIND
        if self.tensors.holds(cls):
            kind = self.tensors.getattr
        elif self.arrays.holds(cls):
            kind = self.arrays.getattr
        elif objects.is_subtype(cls, type):
            kind = self._class_getattr
        elif objects.is_subtype(cls, types.ModuleType):
            kind = self._module_getattr
        elif cls is super:
            kind = self._super_getattr
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
        if found is not None and is_data_descriptor(found.value):
            if record is not None:
                if name == "__dict__":
                    return world.dict_of(record)
                if type(found.value) is types.MemberDescriptorType:
                    self._fill_slots(record)
            return native(frame, obj, name)
        if record is not None:
            value = self._attribute(record, name)
        else:
            own = objects.instance_dict(obj)
            value = MISSING if own is None else dict.get(own, name, MISSING)
        if value is not MISSING:
            return value
        if found is None:
            world.class_attribute(cls, "__getattr__")
            return native(frame, obj, name)
        if type(found.value) is types.FunctionType:
            world.know(found.value)
            return types.MethodType(found.value, obj)
        if is_descriptor(found.value):
            return native(frame, obj, name)
        return self._class_value(found.owner, name, found.value)

    def _attribute(self, record: Record, name: str) -> Any:
        try:
            return self.world.attribute(record, name)
        except Opaque as error:
            raise Break(str(error)) from None

    def _fill_slots(self, record: Record) -> None:
        try:
            self.world.fill_slots(record)
        except Opaque as error:
            raise Break(str(error)) from None

    def _class_value(self, cls: type, name: str, value: Any) -> Any:
        try:
            return self.world.class_value(cls, name, value)
        except Opaque as error:
            raise Break(str(error)) from None

    def _class_getattr(self, frame: Frame, cls: Any, name: str) -> Any:
        """As `type_getattro`."""
        world = self.world
        meta = type(cls)
        getter = objects.lookup(meta, "__getattribute__")
        if getter is not None and type(getter.value) is types.FunctionType:
            return core.getattr(frame, cls, name)
        on_meta = world.class_attribute(meta, name)
        if on_meta is not None and is_data_descriptor(on_meta.value):
            if name == "__dict__":
                return self._class_dict(cls)
            return core.getattr(frame, cls, name)
        found = world.class_attribute(cls, name)
        if found is not None:
            value = found.value
            if type(value) is types.FunctionType:
                return world.know(value)
            if is_descriptor(value):
                return core.getattr(frame, cls, name)
            return self._class_value(found.owner, name, value)
        if on_meta is None or is_descriptor(on_meta.value):
            return core.getattr(frame, cls, name)
        return self._class_value(on_meta.owner, name, on_meta.value)

    def _symbol_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        raise Break(f"an attribute of a size that depends on values is read: {name}")

    def _class_dict(self, cls: type) -> Any:
        """A class's own namespace, as a view of a copy whose values are wrapped."""
        if id(cls) in self.world.made_classes:
            return objects.type_dict(cls)
        namespace = {}
        for name in objects.type_dict(cls):
            if type(name) is not str:
                raise Break("a class has attributes whose names are not strings")
            found = self.world.class_attribute(cls, name)
            assert found is not None
            namespace[name] = self._class_value(cls, name, found.value)
        return types.MappingProxyType(namespace)

    def _module_getattr(self, frame: Frame, module: Any, name: str) -> Any:
        namespace = objects.instance_dict(module)
        if namespace is None or not self.world.is_world(module):
            return core.getattr(frame, module, name)
        if name == "__dict__":
            return self.namespace(namespace).shadow
        if name == "__warningregistry__":  # a cache, which is not followed
            core.raise_user(AttributeError(f"a module has no attribute {name!r}"))
        value = self.namespace_value(namespace, name)
        if value is not MISSING:
            return value
        if name == "__annotations__" and type(module) is types.ModuleType:
            made: dict[str, Any] = {}  # CPython makes them when they are asked for
            self.store_namespace(namespace, name, made)
            return made
        if type(module) is not types.ModuleType:
            self.world.protocol(type(module), ("__getattr__", "__getattribute__", name))
        return core.getattr(frame, module, name)

    def _super_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """As `super_getattro`: the MRO of the object's class, behind the class named."""
        this = super.__dict__["__thisclass__"].__get__(obj)
        start = super.__dict__["__self_class__"].__get__(obj)
        target = super.__dict__["__self__"].__get__(obj)
        if start is None or name == "__class__":
            return core.getattr(frame, obj, name)
        order = objects.mro(start)
        position = next((i for i, cls in enumerate(order) if cls is this), len(order))
        for owner in order[position + 1 :]:
            self.world.class_attribute(owner, name)  # guarded, also if it is not there
            if name not in objects.type_dict(owner):
                continue
            value = objects.type_dict(owner)[name]
            if type(value) is types.FunctionType:
                self.world.know(value)
                return value if target is start else types.MethodType(value, target)
            if is_descriptor(value):
                if type(value) is types.GetSetDescriptorType and name == "__dict__":
                    return self.getattr(frame, target, name)
                return core.getattr(frame, obj, name)
            return self._class_value(owner, name, value)
        return core.getattr(frame, obj, name)

    def _function_getattr(self, frame: Frame, function: Any, name: str) -> Any:
        """Fields of a function that existed before the call."""
        if name not in _FUNCTION_FIELDS:
            self.world.pin(function)
        own = function.__dict__
        if name == "__defaults__":
            return self.wrap(function.__defaults__, Fixed(function.__defaults__))
        if name == "__kwdefaults__":
            return self.wrap(function.__kwdefaults__, Fixed(function.__kwdefaults__))
        if name == "__dict__":
            return self.wrap(own, Fixed(own))
        if name == "__annotations__":
            return self.wrap(function.__annotations__, Fixed(function.__annotations__))
        if name == "__globals__":
            return self.namespace(function.__globals__).shadow
        if objects.lookup(types.FunctionType, name) is None:
            value = self.namespace_value(own, name)
            if value is not MISSING:
                return value
        return core.getattr(frame, function, name)

    def _opaque_getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        """Attributes that an object holds in a dict can be read, whatever else it is."""
        world, cls = self.world, type(obj)
        if id(obj) not in world.origins:
            raise Break(f"an attribute of {world.opaque[id(obj)]} is read: {name}")
        found = world.class_attribute(cls, name)
        own = objects.instance_dict(obj)
        if found is None or not is_data_descriptor(found.value):
            raw = MISSING if own is None else dict.get(own, name, MISSING)
            if raw is not MISSING:
                key = id(obj), name
                if key not in self._opaque_values:
                    source = Attr(world.origins[id(obj)], name)
                    self._opaque_values[key] = self.wrap(raw, source)
                return self._opaque_values[key]
            if own is not None:
                world.guard(world.origins[id(obj)], NoAttr(name))
        if found is not None and type(found.value) is types.FunctionType:
            world.know(found.value)
            return types.MethodType(found.value, obj)
        raise Break(f"an attribute of an object of type {cls.__qualname__} is read: {name}")

    def setattr(self, frame: Frame, obj: Any, name: str, value: Any) -> None:
        cls = type(obj)
        if self.tensors.holds(cls):
            self.tensors.setattr(frame, obj, name, value)
            return
        if self.arrays.is_symbolic(obj):
            raise Break(f"the attribute {name} of an array is set")
        if not self._may_store(obj, name, value):
            return
        self.world.class_attribute(cls, "__setattr__")
        self.store_ready(obj, name)
        core.setattr(frame, obj, name, value)

    def delattr(self, frame: Frame, obj: Any, name: str) -> None:
        cls = type(obj)
        if self.tensors.holds(cls):
            raise Break(f"the attribute {name} of a tensor is deleted")
        if not self._may_store(obj, name, NULL):
            return
        self.world.class_attribute(cls, "__delattr__")
        record = self.world.records.get(id(obj))
        if record is not None:
            self._attribute(record, name)
            self._fill_slots(record)
        core.delattr(frame, obj, name)

    def _may_store(self, obj: Any, name: str, value: Any) -> bool:
        """Whether CPython may carry a store out; namespaces held raw are written by overlay."""
        cls = type(obj)
        if not self.world.is_world(obj) or id(obj) in self.world.records:
            if name == "__dict__" or name == "__class__":
                if id(obj) in self.world.records:
                    raise Break(f"{name} of an object is replaced")
                if value is not NULL:
                    self.values.ready(value, Depth.SHALLOW)
            return True
        if objects.is_subtype(cls, types.ModuleType):
            namespace = objects.instance_dict(obj)
            assert namespace is not None
            self.store_namespace(namespace, name, value)
            return False
        if cls is types.CellType and name == "cell_contents":
            self.store_cell_value(obj, value)
            return False
        if cls is types.FunctionType and objects.lookup(cls, name) is None:
            self.world.pin(obj)
            if value is NULL and self.namespace_value(obj.__dict__, name) is MISSING:
                core.raise_user(AttributeError(f"'function' object has no attribute {name!r}"))
            self.store_namespace(obj.__dict__, name, value)
            return False
        if objects.is_subtype(cls, type) and id(obj) not in self.world.made_classes:
            setter = objects.lookup(cls, "__setattr__" if value is not NULL else "__delattr__")
            if setter is not None and type(setter.value) is types.FunctionType:
                return True  # which goes on to `type.__setattr__`
            if value is not NULL and self._plain_metaclass(cls):
                self.store_class(obj, name, value)
                return False
        what = "a class" if objects.is_subtype(cls, type) else f"an object of type {cls.__name__}"
        raise Break(f"an attribute of {what} that existed before the call is set: {name}")

    def store_class(self, cls: type, name: str, value: Any) -> None:
        """As `type.__setattr__`; what a class that existed before holds is written at the end."""
        if id(cls) in self.world.made_classes or is_frozen_class(cls):
            try:
                type.__setattr__(cls, name, value)
            except (TypeError, AttributeError) as error:
                core.raise_user(error)
            return
        try:
            self.world.write_class(cls, name, value)
        except Opaque as error:
            raise Break(str(error)) from None

    def _plain_metaclass(self, meta: type) -> bool:
        found = objects.lookup(meta, "__setattr__")
        return found is not None and found.owner is type

    def store_ready(self, obj: Any, name: str) -> None:
        """An instance attribute is about to be written: what it was does not matter."""
        record = self.world.records.get(id(obj))
        if record is None:
            return
        if objects.slots(type(obj)).get(name) is not None:
            self._fill_slots(record)
        if record.dict is not None and not record.attributes_filled:
            record.attributes.setdefault(name, _UNREAD)

    # ------------------------------------------------------------------ names

    def namespace(self, raw: dict[str, Any]) -> Record:
        """The record of a dict that is held by a module, a function or the like."""
        record = self._namespaces.get(id(raw))
        if record is None:
            if type(raw) is not dict:
                raise Break("the globals of a function are not a plain dict")
            record = self._namespaces[id(raw)] = self.world.namespace(raw)
        return record

    def known_namespace(self, raw: dict[str, Any]) -> Record | None:
        """The record of such a dict, if the program has used it."""
        return self._namespaces.get(id(raw))

    def own_namespace(self, made: Any) -> None:
        """A dict that the program made, and runs code in: it is used as it is."""
        if type(made) is not dict or id(made) in self._namespaces:
            return
        if id(made) in self.world.records or self.world.is_world(made):
            return
        record = Record(made, made, Fixed(made), dict)
        record.filled = True
        self._namespaces[id(made)] = record
        self.own_namespaces.add(id(made))
        self.world.keep(made)

    def namespace_value(self, raw: dict[str, Any], name: str) -> Any:
        """A name in such a dict; MISSING if it is not there."""
        try:
            return self.world.lookup(self.namespace(raw), name)
        except Opaque as error:
            raise Break(str(error)) from None

    def store_namespace(self, raw: dict[str, Any], name: str, value: Any) -> None:
        record = self.namespace(raw)
        if value is NULL or record.filled or not self.world.store_item(record, name, value):
            self.values.fill(record)
            if value is NULL:
                dict.pop(record.shadow, name, None)
            else:
                dict.__setitem__(record.shadow, name, value)

    def load_global(self, frame: Frame, name: str) -> Any:
        namespace: Any = frame.globals
        if type(namespace) is not dict:
            raise Break("the globals of a function are not a plain dict").at(frame)
        value = self.namespace_value(namespace, name)
        if value is not MISSING:
            return value
        builtins: Any = frame.builtins
        if type(builtins) is dict:
            value = self.namespace_value(builtins, name)
            if value is not MISSING:
                return value
        return core.load_global(frame, name)

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.store_namespace(frame.globals, name, value)

    def delete_global(self, frame: Frame, name: str) -> None:
        if self.namespace_value(frame.globals, name) is MISSING:
            core.raise_user(NameError(f"name '{name}' is not defined"))
        self.store_namespace(frame.globals, name, NULL)

    def load_name(self, frame: Frame, namespace: Any, name: str) -> Any:
        if namespace is frame.globals:
            return self.load_global(frame, name)
        self._ready_namespace(namespace)
        value = core.lookup_name(frame, namespace, name)
        return self.load_global(frame, name) if value is NULL else value

    def lookup_name(self, frame: Frame, mapping: Any, name: str) -> Any:
        if mapping is frame.globals or (mapping is frame.builtins and type(mapping) is dict):
            value = self.namespace_value(mapping, name)
            return NULL if value is MISSING else value
        self._ready_namespace(mapping)
        return core.lookup_name(frame, mapping, name)

    def store_name(self, frame: Frame, name: str, value: Any) -> None:
        if frame.namespace is frame.globals:
            self.store_namespace(frame.globals, name, value)
        else:
            self._ready_namespace(frame.namespace)
            core.store_name(frame, name, value)

    def delete_name(self, frame: Frame, name: str) -> None:
        if frame.namespace is frame.globals:
            self.delete_global(frame, name)
        else:
            self._ready_namespace(frame.namespace)
            core.delete_name(frame, name)

    def _ready_namespace(self, namespace: Any) -> None:
        record = self.world.records.get(id(namespace))
        if record is not None:
            self.values.fill(record)
        elif id(namespace) in self.world.opaque:
            raise Break("a namespace is an object that can't be followed")

    # ------------------------------------------------------------------ cells

    def load_cell(self, frame: Frame, cell: types.CellType) -> Any:
        if id(cell) not in self.world.origins:
            return core.load_cell(frame, cell)
        value = self.cells.get(id(cell), _UNREAD)
        if value is _UNREAD:
            raw = core.load_cell(frame, cell)
            source = self.world.origins[id(cell)]
            if raw is NULL:
                raise Break("a variable of an enclosing function is not set")
            value = self.wrap(raw, CellContents(source))
            self.cells[id(cell)] = value
        return value

    def store_cell(self, frame: Frame, cell: types.CellType, value: Any) -> None:
        if id(cell) in self.world.origins:
            self.store_cell_value(cell, value)
        else:
            core.store_cell(frame, cell, value)

    def store_cell_value(self, cell: types.CellType, value: Any) -> None:
        self.cells[id(cell)] = value
        self.written_cells[id(cell)] = cell

    # ------------------------------------------------------------------ operators

    def binary(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        if self.tensors.holds(type(a)) or self.tensors.holds(type(b)):
            return self.tensors.operator(frame, operators.BINARY[op], a, b)
        if self.arrays.holds(type(a)) or self.arrays.holds(type(b)):
            return self.arrays.operator(frame, operators.BINARY[op], a, b)
        if self.tensors.is_symbol(a, b):
            return self.tensors.symbolic(operators.BINARY[op], a, b)
        self._ready_operands((a, b), operators.BINARY_NAMES[op])
        return core.binary(frame, op, a, b)

    def compare(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        if self.tensors.holds(type(a)) or self.tensors.holds(type(b)):
            return self.tensors.operator(frame, operators.COMPARE[op], a, b)
        if self.arrays.holds(type(a)) or self.arrays.holds(type(b)):
            return self.arrays.operator(frame, operators.COMPARE[op], a, b)
        if self.tensors.is_symbol(a, b):
            return self.tensors.symbolic(operators.COMPARE[op], a, b)
        self._ready_operands((a, b), operators.COMPARE_NAMES, Depth.DEEP)
        return core.compare(frame, op, a, b)

    def identical(self, frame: Frame, a: Any, b: Any) -> bool:
        self.world.distinct(a, b)
        return False

    def negative(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__neg__", core.negative, value)

    def positive(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__pos__", core.positive, value)

    def invert(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__invert__", core.invert, value)

    def _unary(self, frame: Frame, name: str, plain: Any, value: Any) -> Any:
        if self.tensors.holds(type(value)):
            return self.tensors.operator(frame, operators.UNARY[name], value)
        if self.tensors.is_symbol(value):
            return self.tensors.symbolic(operators.UNARY[name], value)
        if self.arrays.holds(type(value)):
            return self.arrays.operator(frame, operators.UNARY[name], value)
        self._ready_operands((value,), (name,))
        return plain(frame, value)

    def _ready_operands(
        self, operands: tuple[Any, ...], names: tuple[str, ...], depth: Depth = Depth.SHALLOW
    ) -> None:
        for value in operands:
            cls = type(value)
            if operators.NUMBERS.holds(cls):
                continue
            self.values.ready(value, depth)
            if is_python_class(cls):
                self.world.protocol(cls, names)

    def truth(self, frame: Frame, value: Any) -> bool:
        cls = type(value)
        if self.tensors.holds(cls):
            return self.tensors.truth(value)
        if self.tensors.is_symbol(value):
            return bool(self.tensors.symbolic(bool, value))
        if id(value) in self.world.opaque and not (
            objects.lookup(cls, "__bool__") or objects.lookup(cls, "__len__")
        ):
            return True
        length = self.length(value)
        if length is not None:
            return length > 0
        self._ready_operands((value,), ("__bool__", "__len__"))
        return core.truth(frame, value)

    def length(self, value: Any) -> int | None:
        """How many items an unfilled plain container has; None: ask CPython."""
        record = self.world.records.get(id(value))
        if record is None or record.filled or record.owner is not None or record.writes:
            return None
        if not _PLAIN_SIZED.holds(type(value)):
            return None
        return self.world.length(record)

    def contains(self, frame: Frame, container: Any, item: Any) -> bool:
        if self.tensors.holds(type(container)):
            return self.tensors.contains(frame, container, item)
        record = self.world.records.get(id(container))
        if (
            record is not None
            and not record.filled
            and self._base_method(container, "__contains__")
        ):
            found = self._has_key(record, item)
            if found is not None:
                return found
        self._ready_operands((container, item), ("__contains__", "__iter__", "__eq__"), Depth.DEEP)
        return core.contains(frame, container, item)

    def _has_key(self, record: Record, key: Any) -> bool | None:
        try:
            return self.world.has_key(record, key)
        except Opaque as error:
            raise Break(str(error)) from None

    def _base_method(self, obj: Any, name: str) -> bool:
        """Whether a container's class uses the layout base's own C method."""
        found = self.world.class_attribute(type(obj), name)
        return found is not None and not is_python_class(found.owner)

    # ------------------------------------------------------------------ items

    def getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        cls = type(obj)
        if self.tensors.holds(cls):
            return self.tensors.getitem(frame, obj, key)
        if self.arrays.holds(cls):
            return self.arrays.getitem(frame, obj, key)
        record = self.world.records.get(id(obj))
        if record is not None:
            if not record.filled and self._base_method(obj, "__getitem__"):
                value = self.item(record, key)
                if value is not MISSING:
                    return value
            self.values.fill(record)
        elif id(obj) in self.world.opaque:
            raise Break(f"an item of an object of type {cls.__qualname__} is read")
        self._ready_operands((key,), ("__hash__", "__eq__", "__index__"), Depth.DEEP)
        self.world.protocol(cls, ("__getitem__", "__missing__", "__class_getitem__"))
        return core.getitem(frame, obj, key)

    def item(self, record: Record, key: Any) -> Any:
        try:
            return self.world.item(record, key)
        except Opaque as error:
            raise Break(str(error)) from None

    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any) -> None:
        if self.tensors.holds(type(obj)):
            self.tensors.setitem(frame, obj, key, value)
            return
        if self.arrays.holds(type(obj)):
            self.arrays.setitem(frame, obj, key, value)
            return
        record = self.world.records.get(id(obj))
        unfilled = record is not None and not record.filled
        if unfilled and self._base_method(obj, "__setitem__"):
            assert record is not None
            if self.world.store_item(record, key, value):
                return
        self._ready_store(obj, key, "__setitem__")
        if type(key) is slice:
            self.values.ready(value, Depth.SHALLOW)
        core.setitem(frame, obj, key, value)

    def delitem(self, frame: Frame, obj: Any, key: Any) -> None:
        self._ready_store(obj, key, "__delitem__")
        core.delitem(frame, obj, key)

    def _ready_store(self, obj: Any, key: Any, name: str) -> None:
        cls = type(obj)
        record = self.world.records.get(id(obj))
        if record is not None:
            self.values.fill(record)
        elif id(obj) in self.world.opaque:
            raise Break(f"an item of an object of type {cls.__qualname__} is set")
        self._ready_operands((key,), ("__hash__", "__eq__", "__index__"), Depth.DEEP)
        self.world.protocol(cls, (name,))

    # ------------------------------------------------------------------ iteration

    def iter(self, frame: Frame, obj: Any) -> Any:
        if self.tensors.holds(type(obj)):
            return self.tensors.iter(frame, obj)
        if self.arrays.is_symbolic(obj):
            return self.arrays.iter(frame, obj)
        if id(obj) in self.world.opaque:
            raise Break(f"an object of type {type(obj).__qualname__} is iterated over")
        self._ready_operands((obj,), ("__iter__", "__getitem__", "__len__"))
        made = core.iter(frame, obj)
        self.calls.note(made)
        return made

    def next(self, frame: Frame, iterator: Any) -> Any:
        if id(iterator) in self.world.opaque:
            raise Break(f"an iterator of type {type(iterator).__qualname__} is advanced")
        self.world.protocol(type(iterator), ("__next__",))
        return core.next(frame, iterator)

    def send(self, frame: Frame, receiver: Any, value: Any) -> tuple[bool, Any]:
        if id(receiver) in self.world.opaque:
            raise Break(f"an iterator of type {type(receiver).__qualname__} is advanced")
        return core.send(frame, receiver, value)

    # ------------------------------------------------------------------ calls

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        if self.stopped is not None:
            raise self.stopped
        return self.calls.call(frame, callable, args, kwnames)

    def call_ex(self, frame: Frame, callable: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        return self.calls.call_ex(frame, callable, args, kwargs)

    def call_native(self, frame: Frame, callable: Any, *args: Any) -> Any:
        return self.calls.call_native(frame, callable, args)

    def make_function(self, frame: Frame, code: types.CodeType) -> types.FunctionType:
        function = core.make_function(frame, code)
        self.calls.made[id(function)] = function
        return function

    def instruction(self, frame: Frame, thunk: types.FunctionType, *operands: Any) -> Any:
        return self.calls.instruction(frame, thunk, operands)

    def stack_trace(self, frame: Frame) -> str:
        """The user's lines, as FX prints them."""
        return "\n".join(map(_shown, stack(frame)))


@functools.lru_cache(10_000)
def _shown(place: Place) -> str:
    text = linecache.getline(place.file, place.line).strip()
    return f'  File "{place.file}", line {place.line}, in {place.function}\n    {text}'
