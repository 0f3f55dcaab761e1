"""Objects as their layout base sees them: what guards compare, in Python.

Stage: guards. These are the slow meanings of native operations (guards_fetch.c, guards_check.c);
none of them runs user code.
"""

import struct
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

from stator import objects


def instance_dict(value: Any) -> dict[Any, Any]:
    """The attributes an instance holds itself, {} if none; no user code runs."""
    own = objects.known_dict(value)
    return {} if own is None else own


def class_attributes(cls: type, name: str) -> Iterator[Any]:
    """What a name is bound to in a class and its bases, in MRO order."""
    for base in objects.mro(cls):
        namespace = objects.type_dict(base)
        if name in namespace:
            yield namespace[name]


def is_ordered(value: Any) -> bool:
    """Does the value keep an order of its own, besides its dict's?"""
    return OrderedDict in type(value).__mro__


def length_of(value: Any) -> int:
    """As the layout base's __len__; -1 for what has no such base."""
    for kind in (tuple, list, bytes, dict, set, frozenset, str, deque):
        if kind in type(value).__mro__:
            return kind.__len__(value)
    return -1


def is_torch(kind: type, name: str) -> bool:
    return kind.__module__ == "torch" and kind.__name__ == name


def typed_equal(constant: Any, value: Any) -> bool:
    """Equal in type and value, throughout: 1, True and 1.0 differ, -0.0 is not 0.0, nan is nan.

    Of ranges the bounds count, not the items; of frozensets the order, too. What has one object per
    value (None, bools, dtypes, layouts, memory formats) is compared by identity, and so is what is
    no constant.
    """
    kind = type(constant)
    if constant is value:
        return True
    if type(value) is not kind:
        return False
    if kind is float:
        return struct.pack("d", constant) == struct.pack("d", value)
    if kind is complex:
        return typed_equal(constant.real, value.real) and typed_equal(constant.imag, value.imag)
    if kind in {int, str, bytes} or is_torch(kind, "device"):
        return bool(constant == value)
    if kind is slice or kind is range:
        return all(
            typed_equal(getattr(constant, bound), getattr(value, bound))
            for bound in ("start", "stop", "step")
        )
    if kind is tuple or is_torch(kind, "Size"):
        return len(constant) == len(value) and all(map(typed_equal, constant, value))
    if kind is frozenset:
        return len(constant) == len(value) and all(map(typed_equal, constant, value))
    return False
