"""Types, read through `type`'s own descriptors: a metaclass can't interfere."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_MRO: Final = type.__dict__["__mro__"].__get__
_DICT: Final = type.__dict__["__dict__"].__get__
_BASE: Final = type.__dict__["__base__"].__get__
name_of: Final[Callable[[type], str]] = type.__dict__["__name__"].__get__
qualname_of: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
module_of: Final[Callable[[type], Any]] = type.__dict__["__module__"].__get__
"""Whatever the class body has set: a string, as a rule."""
flags_of: Final[Callable[[type], int]] = type.__dict__["__flags__"].__get__


class TypeSet:
    """A set of types compared by identity: `in` would ask a metaclass for `__eq__`."""

    def __init__(self, *members: type) -> None:
        self._ids = frozenset(map(id, members))
        self._members = members  # kept alive, so that the ids stay theirs

    def holds(self, cls: type) -> bool:
        return id(cls) in self._ids


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
    for owner in _MRO(cls) or ():
        attributes = _DICT(owner)
        if name in attributes:
            return Attribute(owner, attributes[name])
    return None


def special(obj: Any, name: str) -> Attribute | None:
    """The special method an operation on `obj` uses: the type's, never the instance's."""
    return lookup(type(obj), name)


def is_subtype(cls: type, ancestor: type) -> bool:
    """As `PyType_IsSubtype`: by the MRO alone, no `__instancecheck__` or `__subclasscheck__`."""
    order = _MRO(cls)
    if order is None:  # the metaclass's `mro` is making it up
        best = _BASE(cls)
        return cls is ancestor or (best is not None and is_subtype(best, ancestor))
    for entry in order:  # noqa: SIM110 - `any` takes three times as long
        if entry is ancestor:
            return True
    return False
