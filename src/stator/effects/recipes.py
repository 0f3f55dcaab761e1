"""Which recipe an object has: tables by exact type, then by layout.

Stage: effects. In: an object that `resolve` does not know: it was made while tracing. Out: its
`Node`, or None if the object itself will do (it can't change and has no identity worth keeping), or
CannotRebuild.
"""

from __future__ import annotations

import functools
import types
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from enum import EnumMeta
from typing import Any, Final

from stator import objects
from stator.effects import arrays, callables, containers, instances, iterators, templates, texts
from stator.effects.model import CannotRebuild
from stator.effects.node import Node, Recipe
from stator.objects.types import module_of, qualname_of

# Exact types whose values are themselves: nobody can tell two equal ones apart, except by `is`.
CONSTANTS: Final = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    range,
    types.CodeType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)
# The same for types of modules that need not be loaded: (module, name).
CONSTANT_NAMES: Final = frozenset(
    {
        ("_csv", "Dialect"),
        ("datetime", "date"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("re", "Match"),
        ("re", "Pattern"),
    }
)
ARRAY_NAME: Final = ("numpy", "ndarray")
# Tuple types of C that are made from a sequence: (module, name). So are struct sequences.
SIZES: Final = frozenset({("torch", "Size")})

EXACT: Final[dict[type, Recipe]] = {
    **iterators.RECIPES,
    slice: containers.slice_node,
    **templates.RECIPES,
    types.CellType: callables.cell_node,
    types.FunctionType: callables.function_node,
    types.MethodType: callables.method_node,
    types.MethodWrapperType: callables.wrapper_node,
    staticmethod: callables.wrapping_node,
    classmethod: callables.wrapping_node,
    property: callables.property_node,
    texts.Text: texts.text_node,
    texts.Mention: texts.mention_node,
}
# By layout base: these have subclasses, with a dict and slots.
LAYOUTS: Final[dict[type, Recipe]] = {
    object: instances.instance_node,
    types.SimpleNamespace: instances.namespace_node,
    tuple: containers.tuple_node,
    list: containers.list_node,
    dict: containers.dict_node,
    defaultdict: containers.defaultdict_node,
    OrderedDict: containers.ordered_node,
    set: containers.set_node,
    frozenset: containers.frozenset_node,
    deque: containers.deque_node,
    bytearray: containers.bytearray_node,
    array: containers.array_node,
    int: containers.immutable_node,
    float: containers.immutable_node,
    str: containers.immutable_node,
    bytes: containers.immutable_node,
    complex: containers.immutable_node,
    functools.partial: callables.partial_node,
    weakref.ref: iterators.reference_node,
}
REASONS: Final[dict[type, str]] = {
    types.GeneratorType: "a generator made while tracing: it would have to continue half-way",
    types.CoroutineType: "a coroutine made while tracing: it would have to continue half-way",
    types.AsyncGeneratorType: "an async generator made while tracing",
    types.FrameType: "a frame",
    types.TracebackType: "a traceback",
    types.ModuleType: "a module made while tracing",
    memoryview: "a memoryview made while tracing",
}

# Types are found by address: `in` would ask a metaclass for `__hash__`.
_CONSTANTS: Final = frozenset(map(id, CONSTANTS))
_EXACT: Final = {id(cls): recipe for cls, recipe in EXACT.items()}
_LAYOUTS: Final = {id(cls): recipe for cls, recipe in LAYOUTS.items()}


def is_constant(value: Any) -> bool:
    """A value that is the same wherever it comes from: nobody needs to be asked about it."""
    return id(type(value)) in _CONSTANTS or (type(value) is tuple and not value)


def recipe(value: Any) -> Node | None:
    """The node of an object; None if the object itself will do."""
    cls = type(value)
    found = _EXACT.get(id(cls))
    if found is not None:
        return found(value)
    if cls is types.BuiltinFunctionType:
        return callables.builtin_node(value)
    if objects.is_subtype(cls, type):
        raise CannotRebuild(f"a class made while tracing: {qualname_of(value)}")
    if objects.is_subtype(type(cls), EnumMeta):
        return None  # a member: its class has no other
    base = objects.layout_base(cls)
    if cls is base and (_module(cls), qualname_of(cls)) in CONSTANT_NAMES:
        return None
    if cls is base and _is_moment(value, cls):
        return None
    if cls is base and (_module(cls), qualname_of(cls)) == ARRAY_NAME:
        return arrays.array_node(value)
    found = _LAYOUTS.get(id(base))
    if found is not None:
        return found(value)
    if objects.is_subtype(cls, BaseException):
        return instances.exception_node(value)
    if objects.is_subtype(cls, tuple) and _is_made_from_sequence(base):
        return containers.struct_node(value)
    raise CannotRebuild(_reason(cls, base))


def _is_moment(value: Any, cls: type) -> bool:
    """A time or a zone of C, without parts that the program has made."""
    if (_module(cls), qualname_of(cls)) == ("time", "struct_time"):
        items, hidden = value.__reduce__()[1]
        return all(is_constant(each) for each in (*items, *hidden.values()))
    if _module(cls) != "datetime":
        return False
    if qualname_of(cls) == "timezone":
        offset, *name = value.__getinitargs__()
        exact = type(offset) is objects.layout_base(type(offset))
        return exact and all(type(each) is str for each in name)
    if qualname_of(cls) not in ("datetime", "time"):
        return False
    zone = type(value.tzinfo)
    where = _module(zone), qualname_of(zone)
    exact = zone is objects.layout_base(zone)
    return value.tzinfo is None or (
        exact and (where == ("zoneinfo", "ZoneInfo") or _is_moment(value.tzinfo, zone))
    )


def _module(cls: type) -> str:
    """The module of a type; a program may have put anything there."""
    module = module_of(cls)
    return module if type(module) is str else "?"


def _is_made_from_sequence(base: type) -> bool:
    fields = objects.type_dict(base)
    if "n_sequence_fields" in fields:
        return bool(fields["n_sequence_fields"] == fields["n_fields"])  # or some are hidden
    return (_module(base), qualname_of(base)) in SIZES


def _reason(cls: type, base: type) -> str:
    for known, reason in REASONS.items():
        if objects.is_subtype(cls, known):
            return reason
    name = f"{_module(cls)}.{qualname_of(cls)}"
    if cls is base:
        return f"a {name} made while tracing: there is no recipe for this C type"
    return f"a {name} made while tracing: no recipe for its C base {qualname_of(base)}"
