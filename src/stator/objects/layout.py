"""Where an instance keeps its state: layout base, instance dict, slots."""

import functools
import gc
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

from stator._native._core import is_python_class
from stator.objects import types

_KEYWORDS: Final[Any] = functools.partial.__dict__["keywords"]
_DICT_DESCRIPTORS: Final = types.TypeSet(GetSetDescriptorType, MemberDescriptorType)


def layout_base(cls: type) -> type:
    """The builtin type whose C struct instances of `cls` extend: `list`, `dict`, `object` …

    What class statements add to it (slots, the dict) counts as state and not as layout.
    """
    while is_python_class(cls) and not _has_c_new(cls):
        parent = types.base(cls)
        if parent is None:
            break
        cls = parent
    return cls


def _has_c_new(cls: type) -> bool:
    """`_random.Random`, a type of C, is freed as a Python class is; but it makes its instances."""
    new: Any = types.type_dict(cls).get("__new__")
    return type(new) is BuiltinFunctionType and new.__self__ is cls


def _is_slot(value: Any) -> bool:
    return type(value) is MemberDescriptorType


def slots(cls: type) -> dict[str, MemberDescriptorType]:
    """The `__slots__` of all classes in the MRO, by name, the most derived first.

    Read one with `descriptor.__get__(obj)`; an AttributeError says that it is empty.
    """
    found: dict[str, MemberDescriptorType] = {}
    for owner in types.mro(cls):
        if not is_python_class(owner):
            continue
        for name, value in types.type_dict(owner).items():
            if _is_slot(value) and name not in found:
                found[name] = value
    return found


def instance_dict(obj: Any) -> dict[str, Any] | None:
    """The dict that generic attribute access uses, or None; a user's `__dict__` is not asked.

    The first class that has one has a C descriptor `__dict__` for it, also among C types. It may be
    of a subclass of dict, if the program assigned one.
    """
    for owner in types.mro(type(obj)):
        descriptor: Any = types.type_dict(owner).get("__dict__")
        if _DICT_DESCRIPTORS.holds(type(descriptor)):
            try:
                found = descriptor.__get__(obj)
            except (AttributeError, TypeError):  # of C types: this object has none
                return None
            return found if types.is_subtype(type(found), dict) else None
    return None


def known_dict(obj: Any) -> dict[str, Any] | None:
    """The same, but that of a partial is not made by asking.

    Whether there is one decides what a partial of that partial is.
    """
    if type(obj) is not functools.partial:
        return instance_dict(obj)
    last = gc.get_referents(obj)[-1]
    keywords = _KEYWORDS.__get__(obj)
    return last if types.is_subtype(type(last), dict) and last is not keywords else None
