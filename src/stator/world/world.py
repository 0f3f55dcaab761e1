"""Wrapping: from a raw object at a source to what the traced program may hold.

In: raw objects. Out: constants (guarded by value), shadows (guarded as they are read), raw objects
that are never changed while tracing (classes, functions, modules … guarded by identity), opaque
ones. Each raw object has one stand-in, however many paths lead to it.
"""

import enum
import functools
import gc
import re
import types
import typing
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from stator import objects
from stator._native._core import is_python_class
from stator.diagnostics.catalogue import ClassChanged, OpaqueObject
from stator.guards import (
    Aliased,
    Callback,
    Check,
    ClassAttr,
    Closure,
    Code,
    Equal,
    Field,
    Fixed,
    GlobalsOf,
    Guard,
    Index,
    Is,
    IsWeak,
    KeySet,
    Length,
    MethodFunction,
    MethodSelf,
    NoClassAttr,
    NotAliased,
    Referent,
    Slot,
    Source,
    TypeIs,
)
from stator.objects.attributes import is_descriptor
from stator.objects.types import Attribute
from stator.world import fields
from stator.world.filling import Filling, shared_dict
from stator.world.kinds import (
    BUILTIN_METHOD,
    CONSTANTS,
    IDENTITIES,
    plain_element,
    plain_key,
)
from stator.world.records import (
    CONTAINERS,
    DICTS,
    FACTORY,
    MISSING,
    Record,
    dict_source,
    make_shadow,
)

# Layout bases of which shadows are made.
SHADOWED: Final = objects.TypeSet(object, types.SimpleNamespace)

_IMMUTABLE_TYPE: Final = 1 << 8
_HEAP_TYPE: Final = 1 << 9
_flags: Final = type.__dict__["__flags__"].__get__
_module_of: Final = type.__dict__["__module__"].__get__
_PYBIND: Final = "pybind11_builtins"
_name_of: Final = type.__dict__["__name__"].__get__


# Functions of C that are bound to a module or an object: not the methods that a C class has.
_BOUND_C: Final = objects.TypeSet(types.BuiltinFunctionType, types.MethodWrapperType)


def is_frozen_class(cls: type) -> bool:
    """A C class, whose attributes can't be set."""
    flags = _flags(cls)
    return bool(flags & _IMMUTABLE_TYPE) or not flags & _HEAP_TYPE


def _nobody() -> tuple[None, int]:
    """No line of a program is the reason for a guard."""
    return None, 0


class World(Filling):
    """All that one trace knows of the world."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.blame: Callable[[], tuple[types.CodeType | None, int]] = _nobody
        self.records: dict[int, Record] = {}  # by id of the shadow
        self.stand_ins: dict[int, Any] = {}  # by id of the raw object
        self.owners: dict[int, Record] = {}
        self.origins: dict[int, Source] = {}  # of stand-ins, by their id
        self.opaque: dict[int, str] = {}  # id -> type name
        self.made: dict[int, types.FunctionType] = {}  # functions made in the trace, by id
        self.made_classes: set[int] = set()
        self.making: list[str] = []  # names of classes that are being made
        self.special: dict[int, Callable[[Any, Source], Any]] = {}  # by id of the type
        self.foreign: Callable[[Any, Source], Any] | None = None
        self.symbolic: dict[type, Callable[[Any, Source], Any]] = {}  # numbers that are left open
        self._alive: list[Any] = []  # ids above stay taken
        self._class_attributes: dict[tuple[int, str], Attribute | None] = {}
        self._class_values: dict[tuple[int, str], Any] = {}
        self._pinned: set[int] = set()
        self.facts: set[tuple[int, str]] = set()  # fields of classes … that are guarded
        self._hashed: dict[int, Any] = {}  # world objects that were hashed, by id
        self._keys: dict[int, Any] = {}  # keys of world containers that are objects, by id
        self.class_writes: dict[tuple[int, str], Any] = {}
        self.written_classes: dict[tuple[int, str], type] = {}
        self._written_names: set[str] = set()
        self._distinct: set[tuple[int, int]] = set()

    def guard(self, source: Source, check: Check) -> None:
        self.guards.append(Guard(source, check, *self.blame()))

    def keep(self, *values: Any) -> None:
        self._alive.extend(values)

    # ------------------------------------------------------------------ wrapping

    def wrap(self, raw: Any, source: Source) -> Any:
        """What stands for `raw`, with the guards that make it right."""
        cls = type(raw)
        if CONSTANTS.holds(cls):
            opened = self.symbolic.get(cls)
            if opened is not None:
                number = opened(raw, source)
                if number is not MISSING:
                    return number
            self.guard(source, Equal(raw))
            return raw
        known = self.stand_ins.get(id(raw), MISSING)
        if known is not MISSING:
            return self._again(raw, known, source)
        if id(raw) in self.records:  # a shadow that came back, through a C object that held it
            return raw
        special = self.special.get(id(cls))
        if special is not None:
            return special(raw, source)
        if objects.is_subtype(cls, type) or IDENTITIES.holds(cls):
            return self._wrap_identity(raw, source)
        wrapper = _WRAPPERS.get(id(cls))
        if wrapper is not None:
            return wrapper(self, raw, source)
        return self._wrap_instance(raw, source, cls)

    def _again(self, raw: Any, known: Any, source: Source) -> Any:
        """Another path to an object that is known already."""
        first = self.origins.get(id(known))
        if first is None or (known is raw and type(first) is Fixed):
            self.guard(source, Is(raw))
        elif first is not source:
            self.guard(source, Aliased((first,)))
        return known

    def remember(self, raw: Any, stand_in: Any, source: Source) -> Any:
        """From now on `stand_in` is what the program sees for `raw`."""
        self.stand_ins[id(raw)] = stand_in
        self.origins[id(stand_in)] = source
        self._alive.append(raw)
        self._alive.append(stand_in)
        return stand_in

    def _wrap_identity(self, raw: Any, source: Source) -> Any:
        if type(raw) is types.BuiltinFunctionType:
            bound_to = raw.__self__
            if bound_to is not None and not _is_module_or_class(bound_to):
                if _module_of(type(bound_to)) == _PYBIND:  # a function of C++, bound to nothing
                    self.guard(source, Is(raw))
                    return self.know(raw)
                return self._wrap_bound(raw, bound_to, source)
        if type(raw) is BUILTIN_METHOD and type(raw.__self__) is not re.Pattern:
            return self._wrap_opaque(raw, source)
        nested = type(raw) is types.FunctionType and (
            raw.__closure__ or "<locals>" in raw.__qualname__
        )
        if nested and not is_fixed(source):
            return self._wrap_nested(raw, source)
        self.guard(source, Is(raw))
        return self.know(raw)

    def _wrap_nested(self, raw: Any, source: Source) -> Any:
        """A function that a program makes again and again: its code and cells say what it is."""
        self.guard(source, TypeIs(types.FunctionType))
        self.guard(Code(source), Is(raw.__code__))
        self.guard(GlobalsOf(source), Is(raw.__globals__))
        if raw.__closure__:
            self.guard(Closure(source), Length(len(raw.__closure__)))
        for index, cell in enumerate(raw.__closure__ or ()):
            self.remember_cell(cell, Index(Closure(source), index))
        return self.remember(raw, raw, source)

    def remember_cell(self, cell: Any, source: Source) -> None:
        if id(cell) in self.stand_ins:
            first = self.origins[id(cell)]
            self.guard(source, Aliased((first,)) if not is_fixed(first) else Is(cell))
        else:
            self.remember(cell, cell, source)

    def _wrap_bound(self, raw: Any, bound_to: Any, source: Source) -> Any:
        """A C method that was bound before the call, such as `items.append`."""
        member = objects.lookup(type(bound_to), raw.__name__)
        if member is None or type(member.value) is not types.MethodDescriptorType:
            return self._wrap_opaque(raw, source)
        if is_fixed(source):
            self.guard(source, Is(raw))  # which pins what it is bound to
            stand_in = self.wrap(bound_to, Fixed(bound_to))
        else:
            self.guard(source, TypeIs(types.BuiltinFunctionType))
            self.guard(source, Callback(_named(raw.__name__), f"the method {raw.__name__}"))
            stand_in = self.wrap(bound_to, Field(source, _BOUND_TO))
        if id(stand_in) in self.opaque:
            return self._wrap_opaque(raw, source)
        return self.remember(raw, member.value.__get__(stand_in, type(stand_in)), source)

    def know(self, raw: Any) -> Any:
        """Takes a world object as it is: its identity is guarded, or follows from other guards."""
        if id(raw) not in self.stand_ins and id(raw) not in self.made:
            self.remember(raw, raw, Fixed(raw))
            if type(raw) is types.FunctionType:
                for cell in raw.__closure__ or ():
                    if id(cell) not in self.stand_ins:
                        self.remember(cell, cell, Fixed(cell))
        return raw

    def pin(self, value: Any) -> Any:
        """From now on it must be this very object, which is answered: what follows relies on it."""
        source = self.origins[id(value)]
        record = self.records.get(id(value))
        raw = value if record is None else record.raw
        if type(source) is not Fixed and id(value) not in self._pinned:
            self._pinned.add(id(value))
            try:
                self.guard(source, IsWeak(raw))
            except TypeError:  # it can't be referred to weakly
                self.guard(source, Is(raw))
        return raw

    def is_world(self, value: Any) -> bool:
        """Whether an object existed before the trace, or stands for one that did.

        C code hands out classes and functions that nobody has asked for yet: the class that a
        class method is bound to.
        """
        if id(value) in self.origins:
            return True
        cls = type(value)
        if cls is types.FunctionType:
            found = id(value) not in self.made
        else:
            found = objects.is_subtype(cls, type) and not self.is_made(value)
        if found:
            self.know(value)
        return found

    def wrap_instance(self, raw: Any, source: Source) -> Any:
        """For rules in `special` that only look on: the object is wrapped as any other."""
        return self._wrap_instance(raw, source, type(raw))

    def _wrap_instance(self, raw: Any, source: Source, cls: type) -> Any:
        base = objects.layout_base(cls)
        if self.foreign is not None:
            handled = self.foreign(raw, source)
            if handled is not MISSING:
                return handled
        if base is tuple:
            return self._wrap_tuple(raw, source)
        if objects.is_subtype(cls, enum.Enum) or _module_of(cls) == typing.__name__:
            return self._wrap_identity(raw, source)
        if objects.is_subtype(cls, types.ModuleType):
            self.guard(source, Is(raw))
            return self.know(raw)
        if fields.is_value(base):
            return self._wrap_value(raw, source, base)
        if base is frozenset:
            return self._wrap_frozenset(raw, source)
        if cls is base and fields.is_struct_sequence(cls):
            return self._wrap_struct(raw, source)
        if cls is base and fields.is_plain_c_value(raw, cls):
            self.guard(source, TypeIs(cls))
            self.guard(source, Callback(fields.same_plain(raw), f"equal to {raw!r}"))
            return self.remember(raw, raw, source)
        if fields.is_exception(base) and _may_shadow(cls):
            return self._wrap_exception(raw, source, base)
        if (SHADOWED.holds(base) or CONTAINERS.holds(base)) and _may_shadow(cls):
            try:
                shadow = make_shadow(raw, cls, base)
            except TypeError:  # abstract classes, C++ types
                return self._wrap_opaque(raw, source)
            self.guard(source, TypeIs(cls))
            if id(raw) in self.owners:
                raise shared_dict(self.owners[id(raw)])
            self._shadow(raw, shadow, source, base)
            if DICTS.holds(base) and is_python_class(cls) and objects.instance_dict(raw) is raw:
                self._own_attributes(self.records[id(shadow)])
            if base is defaultdict and not self._wrap_factory(self.records[id(shadow)]):
                del self.records[id(shadow)]
                return self._wrap_opaque(raw, source)
            return shadow
        return self._wrap_opaque(raw, source)

    def _own_attributes(self, record: Record) -> None:
        """A dict whose items are its attributes, too (`self.__dict__ = self`), and a shadow alike.

        It is filled at once. To the rest it is an object without attributes, but for CPython.
        """
        self.guard(record.source, Callback(_is_its_own_dict, "its own __dict__"))
        self.fill(record)
        _set_dict(record.shadow)
        record.dict = None
        record.attributes_filled = True

    def _wrap_factory(self, record: Record) -> bool:
        """What a `defaultdict` makes missing values with: C code calls it, so it must be known."""
        made = self.wrap(FACTORY.__get__(record.raw), Slot(record.source, FACTORY))
        FACTORY.__set__(record.shadow, made)
        record.fields.append((FACTORY, made))
        return id(made) not in self.opaque

    def _wrap_opaque(self, raw: Any, source: Source) -> Any:
        self.guard(source, TypeIs(type(raw)))
        self.opaque[id(raw)] = type(raw).__qualname__
        return self.remember(raw, raw, source)

    def _wrap_tuple(self, raw: Any, source: Source) -> Any:
        cls = type(raw)
        own = objects.instance_dict(raw)
        size = tuple.__len__(raw)
        self.guard(source, TypeIs(cls))
        self.guard(source, Length(size))
        items = [self.wrap(item, Index(source, i)) for i, item in enumerate(tuple.__iter__(raw))]
        same = all(a is b for a, b in zip(items, tuple.__iter__(raw), strict=True))
        if own is not None:
            return self._shadow(raw, tuple.__new__(cls, items), source, tuple)
        made = raw if same else tuple.__new__(cls, items)
        if size == 0 and cls is tuple:
            return made
        return self.remember(raw, made, source)

    def _wrap_frozenset(self, raw: Any, source: Source) -> Any:
        cls = type(raw)
        items = tuple(frozenset.__iter__(raw))
        if cls is frozenset and all(CONSTANTS.holds(type(item)) for item in items):
            self.guard(source, Equal(raw))
            return raw
        if not all(plain_key(item) or plain_element(item) for item in items):
            return self._wrap_opaque(raw, source)
        self.guard(source, TypeIs(cls))
        self.guard(source, KeySet(items))
        wrapped = [item if plain_key(item) else self._kept_key(item) for item in items]
        shadow = frozenset.__new__(cls, wrapped)
        if cls is frozenset:
            return self.remember(raw, shadow, source)
        return self._shadow(raw, shadow, source, frozenset)

    def _shadow(self, raw: Any, shadow: Any, source: Source, base: type) -> Any:
        """A shadow whose value is complete; its attributes are filled as they are read."""
        self.records[id(shadow)] = Record(shadow, raw, source, base)
        return self.remember(raw, shadow, source)

    def _wrap_value(self, raw: Any, source: Source, base: Any) -> Any:
        """An instance of a subclass of `int`, `str` …: a value that has attributes."""
        cls = type(raw)
        value = fields.exact(raw, base)
        self.guard(source, TypeIs(cls))
        self.guard(source, Callback(fields.same_value(raw, base), f"equal to {value!r}"))
        return self._shadow(raw, base.__new__(cls, value), source, base)

    def _wrap_proxy(self, raw: Any, source: Source) -> Any:
        """A read-only view of a dict, which is filled at once: C code reads through the view."""
        (held,) = gc.get_referents(raw)
        if not objects.is_subtype(type(held), dict):
            return self._wrap_opaque(raw, source)
        self.guard(source, Is(raw))
        shadow = self.wrap(held, Fixed(held))
        if id(shadow) not in self.records:
            return self._wrap_opaque(raw, source)
        self.fill(self.records[id(shadow)])
        return self.remember(raw, types.MappingProxyType(shadow), Fixed(raw))

    def _wrap_struct(self, raw: Any, source: Source) -> Any:
        if not all(CONSTANTS.holds(type(item)) for item in tuple.__iter__(raw)):
            return self._wrap_opaque(raw, source)
        self.guard(source, TypeIs(type(raw)))
        self.guard(source, Callback(fields.same_items(raw), f"equal to {raw!r}"))
        return self.remember(raw, raw, source)

    def _wrap_exception(self, raw: Any, source: Source, base: Any) -> Any:
        """An exception that existed before the call.

        What its fields hold is read at once: C code looks at them. A group must be this very one.
        """
        cls = type(raw)
        is_group = objects.is_subtype(base, BaseExceptionGroup)
        if is_group:
            message, members = fields.group_members(raw)
            wrapped = [self.wrap(member, Fixed(member)) for member in tuple.__iter__(members)]
            if any(id(member) in self.opaque for member in wrapped):
                return self._wrap_opaque(raw, source)
            shadow = BaseExceptionGroup.__new__(cls, message, wrapped)
        else:
            shadow = base.__new__(cls)
        held = []
        for descriptor in fields.exception_fields(base):
            is_set, value = fields.read_field(descriptor, raw)
            if is_set:
                held.append((descriptor, value))
        if is_group:
            self.guard(source, Is(raw))
            self.guard(source, Callback(fields.same_fields(held), "an exception as it was"))
            source = Fixed(raw)
        elif fields.all_constant(held, CONSTANTS):
            self.guard(source, TypeIs(cls))
            self.guard(source, Callback(fields.equal_fields(held), f"equal to {held[0][1]!r}"))
        else:
            self.guard(source, TypeIs(cls))
        self._shadow(raw, shadow, source, base)
        record = self.records[id(shadow)]
        for descriptor, value in held:
            where: Source = Fixed(value)
            if not is_group and not fields.all_constant([(descriptor, value)], CONSTANTS):
                where = _field_source(source, descriptor)
            stand_in = self.wrap(value, where)
            if stand_in is not None:
                descriptor.__set__(shadow, stand_in)
            record.fields.append((descriptor, descriptor.__get__(shadow)))
        if not is_group:
            constant = [each for each in held if fields.all_constant([each], CONSTANTS)]
            if len(constant) < len(held):
                self.guard(source, Callback(fields.equal_fields(constant), "equal fields"))
        return shadow

    def _wrap_slice(self, raw: Any, source: Source) -> Any:
        parts = (raw.start, raw.stop, raw.step)
        if not all(CONSTANTS.holds(type(part)) for part in parts):
            return self._wrap_opaque(raw, source)
        self.guard(source, Equal(raw))
        return raw

    def _wrap_method(self, raw: Any, source: Source) -> Any:
        self.guard(source, TypeIs(types.MethodType))
        function = self.wrap(raw.__func__, MethodFunction(source))
        made = types.MethodType(function, self.wrap(raw.__self__, MethodSelf(source)))
        return self.remember(raw, made, source)

    def _wrap_weak(self, raw: Any, source: Source) -> Any:
        self.guard(source, TypeIs(weakref.ref))
        target = raw()
        if target is None:
            self.guard(Referent(source), Is(None))
            return self.remember(raw, raw, source)
        made = weakref.ref(self.wrap(target, Referent(source)))
        return self.remember(raw, made, source)

    def _wrap_partial(self, raw: Any, source: Source) -> Any:
        if raw.__dict__:
            return self._wrap_opaque(raw, source)
        self.guard(source, TypeIs(functools.partial))
        function = self.wrap(raw.func, Slot(source, _PARTIAL["func"]))
        args = self.wrap(raw.args, Slot(source, _PARTIAL["args"]))
        keywords = self.wrap(raw.keywords, Slot(source, _PARTIAL["keywords"]))
        self.fill(self.records[id(keywords)])
        made = functools.partial(function)
        # The dict itself, not a copy: the program may change it.
        made.__setstate__((function, args, keywords, None))  # type: ignore[attr-defined]
        return self.remember(raw, made, source)

    # ------------------------------------------------------------------ classes and modules

    def class_attribute(self, cls: type, name: str) -> Attribute | None:
        """As `_PyType_Lookup`, guarded; what the program has set comes first."""
        if name in self._written_names:
            for owner in objects.mro(cls):
                if (id(owner), name) in self.class_writes:
                    return Attribute(owner, self.class_writes[id(owner), name])
                if name in objects.type_dict(owner):
                    break
        if self.is_made(cls):
            return objects.lookup(cls, name)
        key = id(cls), name
        found = self._class_attributes.get(key, MISSING)
        if found is MISSING:
            found = objects.lookup(cls, name)
            self._class_attributes[key] = found
            self._alive.append(cls)
            if not is_frozen_class(cls):
                self._guard_class(cls, name, found)
        return found  # type: ignore[return-value]

    def is_made(self, cls: type) -> bool:
        """Whether the program has made a class, or is just making it."""
        if id(cls) in self.made_classes:
            return True
        if not self.making or id(cls) in self.origins or _name_of(cls) not in self.making:
            return False
        if is_frozen_class(cls):
            return False
        # Hooks such as `__init_subclass__` see a class before the call that makes it returns.
        self.made_classes.add(id(cls))
        self._alive.append(cls)
        return True

    def _guard_class(self, cls: type, name: str, found: Attribute | None) -> None:
        if found is None:
            self.guard(Fixed(cls), NoClassAttr(name))
        elif CONSTANTS.holds(type(found.value)):
            self.guard(ClassAttr(Fixed(cls), name), Equal(found.value))
        else:
            self.guard(ClassAttr(Fixed(cls), name), Is(found.value))

    def write_class(self, cls: type, name: str, value: Any) -> None:
        """An attribute of a class that existed before; only values that are no descriptors."""
        found = objects.lookup(cls, name)
        if name.startswith("__") or is_descriptor(value) or (found and is_descriptor(found.value)):
            raise ClassChanged(f"the method or property {name} of a class is replaced")
        self.class_writes[id(cls), name] = value
        self.written_classes[id(cls), name] = cls
        self._written_names.add(name)

    def protocol(self, cls: type, names: tuple[str, ...]) -> None:
        """An operation uses these special methods of a class, as far as it has them."""
        if is_frozen_class(cls) or id(cls) in self.made_classes:
            return
        for name in names:
            found = self.class_attribute(cls, name)
            if found is not None and _BOUND_C.holds(type(found.value)) and name != "__new__":
                # C code calls it, and nobody asks what it does.
                raise OpaqueObject(f"the method {name} of class {_name_of(cls)} is a C function")

    def class_value(self, cls: type, name: str, value: Any) -> Any:
        """What stands for a plain attribute of a class (guarded by `class_attribute`)."""
        if CONSTANTS.holds(type(value)) or id(cls) in self.made_classes or self.is_world(value):
            return value
        key = id(cls), name
        if key in self.class_writes:
            return value
        if key not in self._class_values:
            if id(value) in self.stand_ins:
                self._class_values[key] = self.stand_ins[id(value)]
            else:
                self._class_values[key] = self.wrap(value, Fixed(value))
        return self._class_values[key]

    def namespace(self, raw: dict[str, Any]) -> Record:
        """The record of a module's globals, or another dict that lives as long as the program."""
        shadow = self.stand_ins.get(id(raw))
        if shadow is None or type(self.origins[id(shadow)]) is not Fixed:
            shadow = self.wrap(raw, Fixed(raw, _namespace_name(raw)))
        return self.records[id(shadow)]

    def lookup(self, record: Record, name: str) -> Any:
        """A name in a namespace; MISSING if it is not there."""
        if record.filled:
            return dict.get(record.shadow, name, MISSING)
        value = record.items.get(name, MISSING)
        if value is MISSING and self.has_key(record, name):
            value = record.items[name]
        return value

    # ------------------------------------------------------------------ identity

    def hashed(self, value: Any) -> None:
        """A value, or what a container holds, goes into a set or dict, or is looked for in one:
        which of them are the same object may decide what happens."""
        items = list(value) if _HOLDERS.holds(type(value)) else [value]
        for item in items:
            parts = item if type(item) is tuple else (item,)
            for part in parts:
                source = self.origins.get(id(part))
                if source is not None and type(source) is not Fixed:
                    self._hashed[id(part)] = part

    def guard_hashed(self) -> None:
        """What was hashed stays as many objects as it was."""
        by_type: dict[int, list[Source]] = {}
        for value in self._hashed.values():
            by_type.setdefault(id(type(value)), []).append(self.origins[id(value)])
        for key, value in self._keys.items():
            if key not in self._hashed and id(type(value)) in by_type:
                by_type[id(type(value))].append(self.origins[key])
        for first, *others in by_type.values():
            if others:
                self.guard(first, NotAliased(tuple(others)))

    def _place(self, value: Any) -> Source | None:
        """Where a world object is; the dict of an object's attributes is there, too."""
        record = self.records.get(id(value))
        if record is not None and record.owner is not None:
            return dict_source(record.owner)
        return self.origins.get(id(value))

    def distinct(self, a: Any, b: Any) -> None:
        """The program saw that two world objects are not the same one."""
        first, second = self._place(a), self._place(b)
        if first is None or second is None or (type(first) is Fixed and type(second) is Fixed):
            return
        if type(a) is not type(b):
            return  # guarded by their types
        key = (id(a), id(b)) if id(a) < id(b) else (id(b), id(a))
        if key not in self._distinct:
            self._distinct.add(key)
            self.guard(first, NotAliased((second,)))


def _is_its_own_dict(value: Any) -> bool:
    return objects.instance_dict(value) is value


def _set_dict(shadow: Any) -> None:
    """Makes a dict its own `__dict__`, past any `__setattr__`."""
    for owner in objects.mro(type(shadow)):
        descriptor: Any = objects.type_dict(owner).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            descriptor.__set__(shadow, shadow)
            return


def is_fixed(source: Source) -> bool:
    """Whether a path starts at an object that the guards hold, not at the call."""
    step: Source | None = source
    while step is not None:
        if type(step) is Fixed:
            return True
        step = step.base
    return False


def _is_module_or_class(value: Any) -> bool:
    cls = type(value)
    return objects.is_subtype(cls, types.ModuleType) or objects.is_subtype(cls, type)


def _field_source(source: Source, descriptor: Any) -> Source:
    if type(descriptor) is types.GetSetDescriptorType:
        return Field(source, descriptor)
    return Slot(source, descriptor)


_BOUND_TO: Final[Any] = types.BuiltinFunctionType.__dict__["__self__"]


def _named(name: str) -> Callable[[Any], bool]:
    return lambda method: bool(method.__name__ == name)


def _may_shadow(cls: type) -> bool:
    """A shadow with `__del__` would run the user's finalizer."""
    return objects.lookup(cls, "__del__") is None


def _namespace_name(raw: dict[str, Any]) -> str:
    name = dict.get(raw, "__name__")
    return f"globals of {name}" if type(name) is str else "a namespace"


_HOLDERS: Final = objects.TypeSet(list, set, frozenset, dict)
_PARTIAL: Final[Any] = functools.partial.__dict__
_WRAPPERS: Final[dict[int, Callable[[World, Any, Source], Any]]] = {
    id(tuple): World._wrap_tuple,
    id(frozenset): World._wrap_frozenset,
    id(slice): World._wrap_slice,
    id(types.MappingProxyType): World._wrap_proxy,
    id(types.MethodType): World._wrap_method,
    id(weakref.ref): World._wrap_weak,
    id(functools.partial): World._wrap_partial,
}
