"""Types, read through `type`'s own descriptors: a metaclass can't interfere."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from stator._native._core import TypeSet, find_attribute, is_subtype

__all__ = [
    "Attribute",
    "TypeSet",
    "base",
    "flags_of",
    "is_subtype",
    "lookup",
    "module_of",
    "mro",
    "name_of",
    "of_torch",
    "qualname_of",
    "special",
    "type_dict",
]

_MRO: Final = type.__dict__["__mro__"].__get__
_DICT: Final = type.__dict__["__dict__"].__get__
_BASE: Final = type.__dict__["__base__"].__get__
name_of: Final[Callable[[type], str]] = type.__dict__["__name__"].__get__
qualname_of: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
module_of: Final[Callable[[type], Any]] = type.__dict__["__module__"].__get__
"""Whatever the class body has set: a string, as a rule."""
flags_of: Final[Callable[[type], int]] = type.__dict__["__flags__"].__get__


class Attribute(NamedTuple):
    """An attribute of a type, and the type in whose dict it stands."""

    owner: type
    value: Any


def mro(cls: type) -> tuple[type, ...]:
    """The method resolution order; empty while the metaclass's `mro` makes it up."""
    order: tuple[type, ...] | None = _MRO(cls)
    return order or ()


def type_dict(cls: type) -> Mapping[str, Any]:
    """The type's own attributes, as a read-only view."""
    view: Mapping[str, Any] = _DICT(cls)
    return view


def base(cls: type) -> type | None:
    """The base whose instance layout the type extends."""
    best: type | None = _BASE(cls)
    return best


def lookup(cls: type, name: str) -> Attribute | None:
    """As `_PyType_Lookup`: the first type of the MRO that has the attribute in its dict."""
    found = find_attribute(cls, name)
    return None if found is None else tuple.__new__(Attribute, found)


def special(obj: Any, name: str) -> Attribute | None:
    """The special method an operation on `obj` uses: the type's, never the instance's."""
    return lookup(type(obj), name)


def of_torch(module: object) -> bool:
    """Whether a module's name is one of torch's own."""
    return type(module) is str and module.partition(".")[0] == "torch"
