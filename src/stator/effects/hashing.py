"""May a value be a key? Putting it into a dict or set asks for its hash, and perhaps for equality.

Stage: effects. If either is the program's own Python code, it would run when the residual function
builds its values: at the wrong moment, once too often. Such keys have no recipe.
"""

from types import FunctionType, MethodType, WrapperDescriptorType
from typing import Any, Final
from weakref import ReferenceType

from stator import objects
from stator.effects.model import CannotRebuild, Constant, Fetched, Resolve
from stator.objects.types import qualname_of

# Python functions of libraries that do nothing but answer: (module, qualname).
HARMLESS: Final = frozenset(
    {
        ("enum", "Enum.__hash__"),
        ("fractions", "Fraction.__eq__"),
        ("fractions", "Fraction.__hash__"),
        ("pathlib", "PurePath.__eq__"),
        ("pathlib", "PurePath.__hash__"),
        ("pathlib._local", "PurePath.__eq__"),
        ("pathlib._local", "PurePath.__hash__"),
        ("uuid", "UUID.__eq__"),
        ("uuid", "UUID.__hash__"),
    }
)
# Those that answer with the address: objects with the same one are the same, `==` is not asked.
ADDRESSES: Final = frozenset({("torch._tensor", "Tensor.__hash__")})


def require_plain_hash(key: Any, resolve: Resolve) -> None:
    """Raises CannotRebuild if hashing or comparing the key would run Python code."""
    pending = [key]
    while pending:
        value = pending.pop()
        ref, cls = resolve(value), type(value)
        if type(ref) is Constant:  # what is given as itself is trusted: Enum members …
            continue
        if type(ref) is Fetched and objects.is_subtype(cls, ReferenceType):
            continue  # a key of the world: it has its hash
        _require_plain(cls)
        if objects.is_subtype(cls, tuple):
            pending += tuple.__iter__(value)
        elif objects.is_subtype(cls, frozenset):
            pending += frozenset.__iter__(value)
        elif objects.is_subtype(cls, ReferenceType):
            pending.append(ReferenceType.__call__(value))
        elif cls is MethodType:
            pending.append(value.__func__)


def _require_plain(cls: type) -> None:
    hasher, equal = objects.lookup(cls, "__hash__"), objects.lookup(cls, "__eq__")
    if hasher is not None and _origin(hasher.value) in ADDRESSES:
        return
    for name, found in (("__hash__", hasher), ("__eq__", equal)):
        if found is None or type(found.value) is WrapperDescriptorType:
            continue
        if _origin(found.value) not in HARMLESS:
            text = f"a key of type {qualname_of(cls)}"
            raise CannotRebuild(f"{text}: putting it into a dict or set would run its {name}")


def hashes_contents(cls: type) -> bool:
    """Is the hash of instances computed from what they are filled with?"""
    found = objects.lookup(cls, "__hash__")
    return found is not None and _origin(found.value) in HARMLESS


def _origin(method: Any) -> tuple[Any, str] | None:
    """Where a Python function was written, as it says itself."""
    if type(method) is not FunctionType or type(method.__module__) is not str:
        return None
    return method.__module__, method.__qualname__
