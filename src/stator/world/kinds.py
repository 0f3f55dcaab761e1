"""Kinds of world objects: which are constants, which are held raw, which may be keys.

Stage: under the tracer, for `World`. In: a type, or a key. Out: what may be done with it. No code
of the user runs.
"""

import contextvars
import enum
import functools
import operator
import re
import types
import weakref
from typing import Any, Final

from stator import objects
from stator.objects.types import flags_of, module_of, name_of
from stator.world import fields
from stator.world.records import Record

CONSTANTS: Final = objects.TypeSet(
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
)
# A C method that wants its defining class is of a type of its own.
BUILTIN_METHOD: Final[Any] = type(re.compile("").match)
# Stands for an argument of a partial that is given later (3.14+).
PLACEHOLDER: Final[Any] = getattr(functools, "Placeholder", None)
_TEXTS: Final = objects.TypeSet(str)
# Never changed by a program in ways that matter, or followed by the write overlay: held raw.
IDENTITIES: Final = objects.TypeSet(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.CodeType,
    types.CellType,
    types.GenericAlias,
    types.UnionType,
    property,
    staticmethod,
    classmethod,
    functools._lru_cache_wrapper,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    re.Pattern,
    contextvars.ContextVar,
    *(() if PLACEHOLDER is None else (type(PLACEHOLDER),)),
    BUILTIN_METHOD,  # of patterns only, see `Identity`
)

_IMMUTABLE_TYPE: Final = 1 << 8
_HEAP_TYPE: Final = 1 << 9
_EQ: Final = object.__dict__["__eq__"]
_HASH: Final = object.__dict__["__hash__"]


MESHES: Final = "torch.distributed.device_mesh"
PLACEMENTS: Final = frozenset(
    {
        "torch.distributed.tensor.placement_types",
        "torch.distributed.tensor._dtensor_spec",
        "torch._C._distributed",
    }
)


def is_torch_value(cls: type) -> bool:
    """A class of torch's whose objects stand for a value, and do not change."""
    module = module_of(cls)
    if type(module) is not str or not module.startswith("torch."):
        return False
    if module in PLACEMENTS:
        return not (objects.is_subtype(cls, type) or objects.is_subtype(cls, tuple))
    return module == MESHES and name_of(cls) == "DeviceMesh"


def is_frozen_class(cls: type) -> bool:
    """A C class, whose attributes can't be set."""
    flags = flags_of(cls)
    return bool(flags & _IMMUTABLE_TYPE) or not flags & _HEAP_TYPE


def has_plain_hash(cls: type) -> bool:
    """Whether instances are hashed and compared by identity."""
    eq, hash_ = objects.lookup(cls, "__eq__"), objects.lookup(cls, "__hash__")
    return eq is not None and eq.value is _EQ and hash_ is not None and hash_.value is _HASH


def has_c_hash(cls: type) -> bool:
    """Whether instances are values of a subclass of `int`, `str` …, hashed and compared as such."""
    base = objects.layout_base(cls)
    eq, hash_ = objects.lookup(cls, "__eq__"), objects.lookup(cls, "__hash__")
    return (
        fields.is_value(base)
        and eq is not None
        and hash_ is not None
        and eq.owner is base
        and hash_.owner is base
    )


def has_address_hash(cls: type) -> bool:
    """Whether instances are hashed by their address: then no two are compared, whatever `__eq__`
    does. Tensors are.
    """
    found = objects.lookup(cls, "__hash__")
    if found is None or type(found.value) is not types.FunctionType:
        return False
    code = found.value.__code__
    return found.value.__module__ == "torch._tensor" and code.co_qualname == "Tensor.__hash__"


def plain_key(key: Any) -> bool:
    """A key that is hashed and compared by C code alone, and needs no stand-in."""
    cls = type(key)
    if CONSTANTS.holds(cls):
        return True
    if cls is tuple or cls is frozenset:
        return all(map(plain_key, key))
    if cls is type or IDENTITIES.holds(cls) or objects.is_subtype(cls, enum.Enum):
        return True
    if objects.is_subtype(cls, type) and has_plain_hash(cls):
        return True
    return fields.is_plain_c_value(key, cls)


def plain_element(item: Any) -> bool:
    """An object that is hashed and compared by identity, or a living weak reference to anything."""
    if type(item) is weakref.ref:
        return item() is not None
    return has_plain_hash(type(item)) or has_c_hash(type(item))


def plain_keys(record: Record) -> bool:
    if record.plain_keys is None:
        keys = dict.keys(record.raw)
        record.plain_keys = all(map(_TEXTS.holds, map(type, keys))) or all(map(plain_key, keys))
    return record.plain_keys
