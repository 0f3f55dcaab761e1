"""How each kind of object is wrapped that is not taken as it is.

Stage: under the tracer. In: a raw object, its source, and the world it is wrapped for. Out: what
stands for it: a value, a shadow, a C object of the same type around stand-ins, or the object
itself, opaque.
"""

import enum
import functools
import gc
import types
import typing
import weakref
from array import array
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import is_python_class
from stator.guards import (
    Callback,
    Equal,
    Field,
    Fixed,
    Index,
    Is,
    IsNot,
    Keys,
    Length,
    MethodFunction,
    MethodSelf,
    Referent,
    Slot,
    SlotEmpty,
    Source,
    TypeIs,
)
from stator.objects.sets import fill_like
from stator.objects.tracebacks import TRACEBACK, earlier_traceback
from stator.objects.types import module_of, name_of
from stator.world import c_values, fields
from stator.world.filling import shared_dict
from stator.world.kinds import CONSTANTS, plain_element, plain_key
from stator.world.records import (
    CONTAINERS,
    DICTS,
    FACTORY,
    MISSING,
    TYPECODE,
    Record,
    make_shadow,
)

if TYPE_CHECKING:
    from stator.world.world import World

# Layout bases of which shadows are made.
SHADOWED: Final = objects.TypeSet(object, types.SimpleNamespace)

_PARTIAL: Final[Any] = functools.partial.__dict__
_CALLBACK: Final[Any] = weakref.ref.__dict__["__callback__"]
_OF_WRAPPER: Final[Any] = types.MethodWrapperType.__dict__


def wrap_instance(world: "World", raw: Any, source: Source, cls: type) -> Any:
    """An object whose class has no rule of its own: its layout decides."""
    base = objects.layout_base(cls)
    if world.foreign is not None:
        handled = world.foreign(raw, source)
        if handled is not MISSING:
            return handled
    if base is tuple:
        return _wrap_tuple(world, raw, source)
    if objects.is_subtype(cls, enum.Enum) or module_of(cls) == typing.__name__:
        return world.wrap_identity(raw, source)
    if objects.is_subtype(cls, types.ModuleType):
        world.guard(source, Is(raw))
        return world.know(raw)
    if fields.is_value(base):
        return _wrap_value(world, raw, source, base)
    if base is frozenset:
        return _wrap_frozenset(world, raw, source)
    if cls is base and fields.is_struct_sequence(cls):
        return _wrap_struct(world, raw, source)
    if cls is base and fields.is_plain_c_value(raw, cls):
        world.guard(source, TypeIs(cls))
        world.guard(source, Callback(fields.same_plain(raw), f"equal to {raw!r}"))
        return world.remember(raw, raw, source)
    if cls is base and c_values.is_itself(cls):
        return world.wrap_identity(raw, source)
    if cls is base and (known := c_values.known(raw, cls)) is not None:
        world.guard(source, TypeIs(cls))
        shown = " ".join(map(repr, known.facts))
        world.guard(source, Callback(c_values.same(raw, cls), f"the same as {shown}"))
        for held in known.held:
            world.know(held)
        return world.remember(raw, raw, source)
    if _is_scanner(cls):
        return _wrap_scanner(world, raw, source)
    if base is weakref.ref and _may_shadow(cls):
        return _wrap_weak(world, raw, source)
    if cls is types.TracebackType:
        world.guard(source, TypeIs(cls))
        return _traceback(world, raw, source)
    if fields.is_exception(base) and _may_shadow(cls):
        return _wrap_exception(world, raw, source, base)
    if (SHADOWED.holds(base) or CONTAINERS.holds(base)) and _may_shadow(cls):
        try:
            shadow = make_shadow(raw, cls, base)
        except TypeError:  # abstract classes, C++ types
            return world.wrap_opaque(raw, source)
        world.guard(source, TypeIs(cls))
        if base is array:  # the shadow has it, too: nothing of it can be asked without
            world.guard(Field(source, TYPECODE), Equal(TYPECODE.__get__(raw)))
        if id(raw) in world.owners:
            raise shared_dict(world.owners[id(raw)])
        _shadow(world, raw, shadow, source, base)
        if DICTS.holds(base) and is_python_class(cls) and objects.instance_dict(raw) is raw:
            _own_attributes(world, world.records[id(shadow)])
        if base is defaultdict and not _wrap_factory(world, world.records[id(shadow)]):
            record = world.records.pop(id(shadow))
            world.dicts.pop(id(record.dict), None)
            return world.wrap_opaque(raw, source)
        return shadow
    return world.wrap_opaque(raw, source)


def _shadow(world: "World", raw: Any, shadow: Any, source: Source, base: type) -> Any:
    """A shadow whose value is complete; its attributes are filled as they are read."""
    record = world.records[id(shadow)] = Record(shadow, raw, source, base)
    if record.dict is not None:
        world.dicts[id(record.dict)] = record
    return world.remember(raw, shadow, source)


def _own_attributes(world: "World", record: Record) -> None:
    """A dict whose items are its attributes, too (`self.__dict__ = self`), and a shadow alike.

    It is filled at once. To the rest it is an object without attributes, but for CPython.
    """
    world.guard(record.source, Callback(_is_its_own_dict, "its own __dict__"))
    world.fill(record)
    _set_dict(record.shadow)
    world.dicts.pop(id(record.dict), None)
    record.dict = None
    record.attributes_filled = True


def _wrap_factory(world: "World", record: Record) -> bool:
    """What a `defaultdict` makes missing values with: C code calls it, so it must be known."""
    held = FACTORY.__get__(record.raw)
    if held is None:  # the field may as well be empty, which is told as None, too
        world.guard(record.source, Callback(_has_no_factory, "no default_factory"))
        record.fields.append((FACTORY, None))
        return True
    made = world.wrap(held, Slot(record.source, FACTORY))
    FACTORY.__set__(record.shadow, made)
    record.fields.append((FACTORY, made))
    return id(made) not in world.opaque


def _has_no_factory(value: Any) -> bool:
    return FACTORY.__get__(value) is None


def _wrap_tuple(world: "World", raw: Any, source: Source) -> Any:
    cls = type(raw)
    own = objects.instance_dict(raw)
    size = tuple.__len__(raw)
    world.guard(source, TypeIs(cls))
    world.guard(source, Length(size))
    items = [world.wrap(item, Index(source, i)) for i, item in enumerate(tuple.__iter__(raw))]
    same = all(a is b for a, b in zip(items, tuple.__iter__(raw), strict=True))
    if own is not None:
        return _shadow(world, raw, tuple.__new__(cls, items), source, tuple)
    made = raw if same else tuple.__new__(cls, items)
    if size == 0 and cls is tuple:
        return made
    return world.remember(raw, made, source)


def _wrap_frozenset(world: "World", raw: Any, source: Source) -> Any:
    cls = type(raw)
    items = tuple(frozenset.__iter__(raw))
    if cls is frozenset and all(CONSTANTS.holds(type(item)) for item in items):
        world.guard(source, Equal(raw))
        return raw
    if not all(plain_key(item) or plain_element(item) for item in items):
        return world.wrap_opaque(raw, source)
    world.guard(source, TypeIs(cls))
    world.guard(source, Keys(items))
    wrapped = [item if plain_key(item) else world.kept_key(item) for item in items]
    shadow = frozenset.__new__(cls, wrapped)
    if wrapped:  # there is one empty frozenset
        fill_like(shadow, raw, wrapped)
    if cls is frozenset:
        return world.remember(raw, shadow, source)
    return _shadow(world, raw, shadow, source, frozenset)


def _wrap_value(world: "World", raw: Any, source: Source, base: Any) -> Any:
    """An instance of a subclass of `int`, `str` …: a value that has attributes."""
    cls = type(raw)
    value = fields.exact(raw, base)
    world.guard(source, TypeIs(cls))
    world.guard(source, Callback(fields.same_value(raw, base), f"equal to {value!r}"))
    return _shadow(world, raw, base.__new__(cls, value), source, base)


def _wrap_struct(world: "World", raw: Any, source: Source) -> Any:
    if not all(CONSTANTS.holds(type(item)) for item in tuple.__iter__(raw)):
        return world.wrap_opaque(raw, source)
    world.guard(source, TypeIs(type(raw)))
    world.guard(source, Callback(fields.same_items(raw), f"equal to {raw!r}"))
    return world.remember(raw, raw, source)


def _traceback(world: "World", raw: types.TracebackType, source: Source) -> Any:
    """What stands for a traceback: nobody looks into it, and what is put before it is known."""
    made = earlier_traceback()
    world.opaque[id(made)] = "traceback"
    return world.remember(raw, made, source)


def _wrap_exception(world: "World", raw: Any, source: Source, base: Any) -> Any:
    """An exception that existed before the call.

    What its fields hold is read at once: C code looks at them.
    """
    cls = type(raw)
    world.guard(source, TypeIs(cls))
    if objects.is_subtype(base, BaseExceptionGroup):
        members = [world.wrap(held, Slot(source, field)) for field, held in fields.of_group(raw)]
        if any(id(member) in world.opaque for member in members[1]):
            return world.wrap_opaque(raw, source)
        if id(raw) in world.stand_ins:  # it is in the chain of one of its members
            return world.stand_ins[id(raw)]
        message = fields.of_group(raw)[0][1]
        if members[0] is not message and type(message) is str:  # it was to be left open
            world.guard(Slot(source, fields.of_group(raw)[0][0]), Equal(message))
            members[0] = message
        shadow = BaseExceptionGroup.__new__(cls, *members)
    else:
        shadow = base.__new__(cls)
    held = []
    for descriptor in fields.exception_fields(base):
        is_set, value = fields.read_field(descriptor, raw)
        if is_set:
            held.append((descriptor, value))
    constant = [each for each in held if fields.all_constant([each], CONSTANTS)]
    text = f"equal to {held[0][1]!r}" if len(constant) == len(held) else "equal fields"
    world.guard(source, Callback(fields.equal_fields(constant), text))
    _shadow(world, raw, shadow, source, base)
    record = world.records[id(shadow)]
    passed = TRACEBACK.__get__(raw)
    if passed is not None:  # that it has one is guarded when the program asks
        known = world.stand_ins.get(id(passed))
        made = _traceback(world, passed, Field(source, TRACEBACK)) if known is None else known
        TRACEBACK.__set__(shadow, made)
        record.traceback = made
    for descriptor, value in held:
        where: Source = Fixed(value)
        if not fields.all_constant([(descriptor, value)], CONSTANTS):
            where = field_source(source, descriptor)
        stand_in = world.wrap(value, where)
        if stand_in is not None:
            descriptor.__set__(shadow, stand_in)
        record.fields.append((descriptor, descriptor.__get__(shadow)))
    return shadow


def _wrap_proxy(world: "World", raw: Any, source: Source) -> Any:
    """A read-only view of a dict, which is filled at once: C code reads through the view."""
    (held,) = gc.get_referents(raw)
    if not objects.is_subtype(type(held), dict):
        return world.wrap_opaque(raw, source)
    world.guard(source, Is(raw))
    shadow = world.wrap(held, Fixed(held))
    if id(shadow) not in world.records:
        return world.wrap_opaque(raw, source)
    world.fill(world.records[id(shadow)])
    return world.remember(raw, types.MappingProxyType(shadow), Fixed(raw))


def _wrap_slice(world: "World", raw: Any, source: Source) -> Any:
    parts = (raw.start, raw.stop, raw.step)
    if not all(CONSTANTS.holds(type(part)) for part in parts):
        return world.wrap_opaque(raw, source)
    world.guard(source, Equal(raw))
    return raw


def _wrap_method(world: "World", raw: Any, source: Source) -> Any:
    world.guard(source, TypeIs(types.MethodType))
    function = world.wrap(raw.__func__, MethodFunction(source))
    made = types.MethodType(function, world.wrap(raw.__self__, MethodSelf(source)))
    return world.remember(raw, made, source)


def _wrap_slot_method(world: "World", raw: Any, source: Source) -> Any:
    """A special method of C that was bound before the call, such as `items.__len__`."""
    owner, name = _OF_WRAPPER["__objclass__"].__get__(raw), _OF_WRAPPER["__name__"].__get__(raw)
    slot = objects.type_dict(owner).get(name)
    if type(slot) is not types.WrapperDescriptorType:
        return world.wrap_opaque(raw, source)
    world.guard(source, TypeIs(types.MethodWrapperType))
    world.guard(source, Callback(fields.same_slot(owner, name), f"the method {name}"))
    field: Any = _OF_WRAPPER["__self__"]
    stand_in = world.wrap_closed(field.__get__(raw), Slot(source, field))
    if id(stand_in) in world.opaque:
        return world.wrap_opaque(raw, source)
    return world.remember(raw, slot.__get__(stand_in, type(stand_in)), source)


def _wrap_weak(world: "World", raw: Any, source: Source) -> Any:
    """A weak reference to what stands for its object; nobody is told when that dies.

    There is one reference without a callback to each object, and any number with one.
    """
    cls = type(raw)
    world.guard(source, TypeIs(cls))
    target = weakref.ref.__call__(raw)
    new: Any = weakref.ref.__new__
    if target is None:
        world.guard(Referent(source), Is(None))
        gone = raw if cls is weakref.ref else new(cls, _Mortal())
        return _shadow(world, raw, gone, source, weakref.ref)
    stand_in = world.wrap(target, Referent(source))
    if id(raw) in world.stand_ins:  # by way of its own object
        return world.stand_ins[id(raw)]
    told = _CALLBACK.__get__(raw) is not None
    if told:
        world.guard(Slot(source, _CALLBACK), IsNot(None))
    else:
        world.guard(source, SlotEmpty(_CALLBACK))
    quiet = type if told else None  # C code that does nothing
    made = new(cls, stand_in, quiet)
    return _shadow(world, raw, made, source, weakref.ref)


class _Mortal:
    """Dies at once."""


def _wrap_partial(world: "World", raw: Any, source: Source) -> Any:
    world.guard(source, TypeIs(functools.partial))
    function = world.wrap(raw.func, Slot(source, _PARTIAL["func"]))
    args = world.wrap(raw.args, Slot(source, _PARTIAL["args"]))
    keywords = world.wrap(raw.keywords, Slot(source, _PARTIAL["keywords"]))
    world.fill(world.records[id(keywords)])
    made = functools.partial(function)
    # The dict itself, not a copy: the program may change it.
    made.__setstate__((function, args, keywords, None))  # type: ignore[attr-defined]
    _shadow(world, raw, made, source, functools.partial)
    world.records[id(made)].initial = (function, args, keywords)
    return made


def _is_scanner(cls: type) -> bool:
    """The class behind `json.JSONDecoder.scan_once`, of any import of `_json`."""
    return (module_of(cls), name_of(cls)) == ("_json", "Scanner") and not is_python_class(cls)


def _wrap_scanner(world: "World", raw: Any, source: Source) -> Any:
    """What reads JSON: another one, with what stands for its hooks."""
    cls = type(raw)
    world.guard(source, TypeIs(cls))
    parts: dict[str, Any] = {}
    for name, member in objects.type_dict(cls).items():
        if type(member) is not types.MemberDescriptorType:
            continue
        held = member.__get__(raw)
        if type(held) is bool:  # no object is kept for it
            parts[name] = held
            world.guard(source, Callback(_has(member, held), f"{name} is {held}"))
        else:
            parts[name] = world.wrap_closed(held, Slot(source, member))
    if any(id(part) in world.opaque for part in parts.values()):
        return world.wrap_opaque(raw, source)
    return world.remember(raw, cls(types.SimpleNamespace(**parts)), source)


def _has(member: Any, held: bool) -> Callable[[Any], bool]:
    return lambda value: bool(member.__get__(value) is held)


def _is_its_own_dict(value: Any) -> bool:
    return objects.instance_dict(value) is value


def _set_dict(shadow: Any) -> None:
    """Makes a dict its own `__dict__`, past any `__setattr__`."""
    for owner in objects.mro(type(shadow)):
        descriptor: Any = objects.type_dict(owner).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            descriptor.__set__(shadow, shadow)
            return


def field_source(source: Source, descriptor: Any) -> Source:
    if type(descriptor) is types.GetSetDescriptorType:
        return Field(source, descriptor)
    return Slot(source, descriptor)


def _may_shadow(cls: type) -> bool:
    """A shadow with `__del__` would run the user's finalizer."""
    return objects.lookup(cls, "__del__") is None


# By id of the type.
WRAPPERS: Final[dict[int, Callable[["World", Any, Source], Any]]] = {
    id(tuple): _wrap_tuple,
    id(frozenset): _wrap_frozenset,
    id(slice): _wrap_slice,
    id(types.MappingProxyType): _wrap_proxy,
    id(types.MethodType): _wrap_method,
    id(types.MethodWrapperType): _wrap_slot_method,
    id(weakref.ref): _wrap_weak,
    id(functools.partial): _wrap_partial,
}
