"""Attribute access as a plan: what it finds, where, and what would run."""

from enum import Enum, auto
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple

from stator._native._core import has_generic_getattr
from stator.objects import types
from stator.objects.layout import instance_dict

_MISSING: Final = object()


class Found(Enum):
    """Where an attribute access ends, in the order in which places are tried."""

    GETATTRIBUTE = auto()
    """The type has a `__getattribute__` of its own, which decides."""
    DATA_DESCRIPTOR = auto()
    """A descriptor of the type with `__set__` or `__delete__`: it goes before the instance."""
    INSTANCE = auto()
    """The instance dict."""
    DESCRIPTOR = auto()
    """A descriptor of the type without `__set__`: functions, classmethods …"""
    CLASS = auto()
    """A plain attribute of the type."""
    GETATTR = auto()
    """Nowhere; the type's `__getattr__` is asked."""
    MISSING = auto()
    """Nowhere: AttributeError."""


class AttributePlan(NamedTuple):
    """What `obj.name` finds."""

    found: Found
    owner: type | None
    """The type in whose dict `value` stands; None for the instance's own."""
    value: Any
    """The attribute, the descriptor, or the `__getattribute__`/`__getattr__` that is asked."""
    on_class: bool = False
    """`obj` is a class that has it itself: a descriptor is asked `__get__(None, obj)`."""


def plan_attribute(obj: Any, name: str) -> AttributePlan:
    """Follows `PyObject_GenericGetAttr` and `type_getattro`, by the type of `obj`."""
    cls = type(obj)
    getter = types.lookup(cls, "__getattribute__")
    if getter is not None and not _is_generic(getter):
        return AttributePlan(Found.GETATTRIBUTE, *getter)
    if types.is_subtype(cls, type):
        plan = _plan_on_class(obj, name)
    else:
        plan = _plan_on_instance(obj, name)
    if plan.found is Found.MISSING:
        fallback = types.lookup(cls, "__getattr__")
        if fallback is not None:
            return AttributePlan(Found.GETATTR, *fallback)
    return plan


def _is_generic(getter: types.Attribute) -> bool:
    return type(getter.value) is WrapperDescriptorType and has_generic_getattr(getter.owner)


def _plan_on_instance(obj: Any, name: str) -> AttributePlan:
    attribute = types.lookup(type(obj), name)
    if attribute is not None and is_data_descriptor(attribute.value):
        return AttributePlan(Found.DATA_DESCRIPTOR, *attribute)
    own = instance_dict(obj)
    if own is not None:
        value = dict.get(own, name, _MISSING)  # a subclass may have a `get` of its own
        if value is not _MISSING:
            return AttributePlan(Found.INSTANCE, None, value)
    return _plan_on_type(attribute)


def _plan_on_class(cls: type, name: str) -> AttributePlan:
    """As `type_getattro`: the metaclass's data descriptors, the class's MRO, the metaclass."""
    meta = types.lookup(type(cls), name)
    if meta is not None and is_data_descriptor(meta.value):
        return AttributePlan(Found.DATA_DESCRIPTOR, *meta)
    attribute = types.lookup(cls, name)
    if attribute is not None:
        return _plan_on_type(attribute)._replace(on_class=True)
    return _plan_on_type(meta)


def _plan_on_type(attribute: types.Attribute | None) -> AttributePlan:
    if attribute is None:
        return AttributePlan(Found.MISSING, None, None)
    found = Found.DESCRIPTOR if is_descriptor(attribute.value) else Found.CLASS
    return AttributePlan(found, *attribute)


_PLAIN_DESCRIPTORS: Final = types.TypeSet(FunctionType, staticmethod, classmethod)
_DATA_DESCRIPTORS: Final = types.TypeSet(property, MemberDescriptorType, GetSetDescriptorType)


def is_descriptor(value: Any) -> bool:
    """Does the type of `value` have `__get__`?"""
    cls = type(value)
    if _PLAIN_DESCRIPTORS.holds(cls) or _DATA_DESCRIPTORS.holds(cls):
        return True
    return types.lookup(cls, "__get__") is not None


def is_data_descriptor(value: Any) -> bool:
    """Does the type of `value` have `__get__`, and `__set__` or `__delete__`?

    CPython looks at `tp_descr_get` and `tp_descr_set`, which is what these names fill.
    """
    cls = type(value)
    if _DATA_DESCRIPTORS.holds(cls):
        return True
    if _PLAIN_DESCRIPTORS.holds(cls) or types.lookup(cls, "__get__") is None:
        return False
    return types.lookup(cls, "__set__") is not None or types.lookup(cls, "__delete__") is not None
