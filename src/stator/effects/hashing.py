"""May a value be a key? Putting it into a dict or set asks for its hash, and perhaps for equality.

Stage: effects. If either is the program's own Python code, it would run when the residual function
builds its values: at the wrong moment, once too often. Such keys have no recipe.
"""

from types import FunctionType, MethodType, WrapperDescriptorType
from typing import Any, Final
from weakref import ReferenceType

from stator import objects
from stator.effects.model import CannotRebuild, Constant, Resolve
from stator.effects.node import qualname_of

# Python functions that answer with the object's address and do nothing else: (module, qualname).
ADDRESSES: Final = frozenset({("torch._tensor", "Tensor.__hash__")})


def require_plain_hash(key: Any, resolve: Resolve) -> None:
    """Raises CannotRebuild if hashing or comparing the key would run Python code."""
    pending = [key]
    while pending:
        value = pending.pop()
        if type(resolve(value)) is Constant:  # what is given as itself is trusted: Enum members …
            continue
        cls = type(value)
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
    if hasher is not None and _is_address(hasher.value):
        return
    for name, found in (("__hash__", hasher), ("__eq__", equal)):
        if found is not None and type(found.value) is not WrapperDescriptorType:
            text = f"a key of type {qualname_of(cls)}"
            raise CannotRebuild(f"{text}: putting it into a dict or set would run its {name}")


def _is_address(hasher: Any) -> bool:
    if type(hasher) is not FunctionType:
        return False
    return (hasher.__module__, hasher.__qualname__) in ADDRESSES
