"""What a run left behind, as text: two runs on fresh objects are equal when their texts are.

Comes in: results, arguments, world objects. Goes out: lines that tell exact types, values (tensors
bit by bit, with dtype, strides, storage and autograd metadata), and which objects and which memory
are the same.

Nothing here runs code of the program: see `tests/walk.py`.
"""

import array
import collections
import enum
import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any, Final

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.walk import (
    ATOMS,
    TEXTS,
    Children,
    Walk,
    cell_contents,
    function_parts,
    inherits,
    layout_base,
    module_of,
    mro_of,
    namespace_of,
    qualname_of,
    type_name,
    without_addresses,
)

# Torch's own immutable values; their repr is theirs, and complete.
_VALUES: Final = frozenset(
    map(
        id, (torch.dtype, torch.device, torch.memory_format, torch.layout, torch.finfo, torch.iinfo)
    )
)
_CONTAINERS: Final = (
    collections.OrderedDict,
    dict,
    types.MappingProxyType,
    list,
    tuple,
    collections.deque,
    set,
    frozenset,
)
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))


def same(a: object, b: object) -> bool:
    """Whether two objects are equal in structure, values, types and aliasing."""
    return describe(a) == describe(b)


def describe(value: object) -> list[str]:
    return Describer().describe("", value)


class Listing(list[object]):
    """A list made for the description only: it has no identity."""


class Describer(Walk):
    """A walk that also tells which tensors share memory."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, int] = {}
        self.memory: list[object] = []

    def identities(self) -> list[int]:
        """The objects met, in order: the same list after a change that replaced none of them."""
        return [id(kept) for kept in self.kept]

    def tensors(self) -> list[torch.Tensor]:
        kept: list[Any] = self.kept
        return [value for value in kept if inherits(type(value), torch.Tensor)]

    def lines(self, label: str, value: object, depth: int) -> Iterator[str]:
        if depth > 64:
            raise RecursionError("an object too deep to describe")
        if type(value) is Listing:
            yield f"{'  ' * depth}{label}listing"
            for position, item in enumerate(value):
                yield from self.lines(f"[{position}] ", item, depth + 1)
            return
        yield from super().lines(label, value, depth)

    def is_atom(self, value: object) -> bool:
        return _is_atom(value)

    def headline(self, value: Any, cls: type) -> str:
        if inherits(cls, torch.Tensor):
            return self._tensor(value, cls)
        if inherits(cls, type):
            return f"{'class' if _is_global(value) else 'local class'} {type_name(value)}"
        if cls is types.FunctionType:
            kind = "function" if _is_global(value) else "local function"
            return f"{kind} {value.__module__}.{value.__qualname__}"
        if cls is types.ModuleType:
            return f"module {value.__name__}"
        if inherits(cls, enum.Enum):
            return f"{type_name(cls)}.{object.__getattribute__(value, '_name_')}"
        if inherits(cls, numpy.ndarray):
            data = hashlib.sha1(value.tobytes()).hexdigest()[:12]
            return f"{type_name(cls)} {value.dtype} {value.shape} {value.strides} {data}"
        if inherits(cls, array.array):
            return f"{type_name(cls)} {value.typecode} {array.array.tobytes(value)!r}"
        if inherits(cls, *TEXTS):
            return f"{type_name(cls)} {layout_base(cls, *TEXTS).__repr__(value)}"
        if inherits(cls, collections.deque):
            limit = collections.deque.maxlen.__get__(value)
            return f"{type_name(cls)} maxlen={limit}"
        if inherits(cls, *_CONTAINERS, BaseException) or _own_state(cls):
            return type_name(cls)
        if cls in (types.MethodType, functools.partial, types.CellType, slice, *_VIEWS):
            return type_name(cls)
        if _is_iterator(cls):
            return type_name(cls)
        return f"{type_name(cls)} {without_addresses(repr(value))}"

    def _tensor(self, value: torch.Tensor, cls: type) -> str:
        if inherits(cls, FakeTensor):
            return "a FakeTensor that left the trace"
        with torch._C.DisableTorchFunctionSubclass():
            grad_fn = value.grad_fn
            facts = [
                type_name(cls),
                str(value.dtype),
                str(value.device),
                str(tuple(value.shape)),
                f"requires_grad={value.requires_grad}",
                f"grad_fn={grad_fn.name() if grad_fn is not None else None}",
                f"inference={value.is_inference()}",
            ]
            if value.layout is torch.strided:
                storage = self.storages.setdefault(
                    value.untyped_storage()._cdata, len(self.storages) + 1
                )
                self.memory.append(value.untyped_storage())
                facts.append(f"strides={value.stride()} offset={value.storage_offset()}")
                facts.append(f"conj={value.is_conj()} neg={value.is_neg()} memory {storage}")
            else:
                facts.append(str(value.layout))
            if value.device.type != "meta":
                facts.append(_bits(value))
        return " ".join(facts)

    def children(self, value: Any, cls: type) -> Children:
        if inherits(cls, torch.Tensor):
            yield from _tensor_parts(value, cls)
        elif inherits(cls, type) or cls is types.ModuleType or inherits(cls, enum.Enum):
            return
        elif cls is types.FunctionType:
            if not _is_global(value):
                yield from function_parts(value)
                yield "line ", value.__code__.co_firstlineno
        elif cls is types.CellType:
            yield from cell_contents(value)
        elif cls is types.MethodType:
            yield "function ", value.__func__
            yield "self ", value.__self__
        elif cls is functools.partial:
            yield from (("function ", value.func), ("args ", value.args), ("kw ", value.keywords))
        elif cls is slice:
            yield from (("start ", value.start), ("stop ", value.stop), ("step ", value.step))
        elif cls in _VIEWS:
            yield "items ", Listing(value)
        elif inherits(cls, weakref.ref):
            yield "referent ", weakref.ref.__call__(value)
        elif _is_iterator(cls):
            yield "state ", _iterator_state(value)
        else:
            yield from _own_parts(value, cls)
            yield from self.contents(value, cls)
            yield from _instance_state(value, cls)


def _is_atom(value: object) -> bool:
    """Immutable, without identity worth comparing: CPython shares and copies these as it likes."""
    cls = type(value)
    if id(cls) in ATOMS or id(cls) in _VALUES:
        return True
    if cls is tuple or cls is frozenset or cls is torch.Size:
        return all(_is_atom(item) for item in value)  # type: ignore[attr-defined]
    return False


def _is_global(value: Any) -> bool:
    """Whether a class or function is what its module and name say, the same one in every run."""
    if type(value) is types.FunctionType:
        module, name = value.__module__, value.__qualname__
    else:
        module, name = module_of(value), qualname_of(value)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        if found is None:
            return False
        is_class = inherits(type(found), type)
        space = namespace_of(found) if is_class else getattr(found, "__dict__", {})
        found = space.get(part)
        if type(found) in (staticmethod, classmethod):
            found = found.__func__
    return found is value


def _bits(value: torch.Tensor) -> str:
    """The values, bit by bit, and a few of them to read."""
    plain = value.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().contiguous()
    shown = plain.flatten()[:3].tolist()
    dense = plain.flatten().clone(memory_format=torch.contiguous_format)
    raw = dense.view(torch.uint8).numpy().tobytes()
    return f"{hashlib.sha1(raw).hexdigest()[:12]} {shown}"


def _tensor_parts(value: torch.Tensor, cls: type) -> Children:
    with torch._C.DisableTorchFunctionSubclass():
        if value.is_leaf or value.retains_grad:
            grad = value.grad
            if grad is not None:
                yield "grad ", grad
        space = object.__getattribute__(value, "__dict__")
    for name, item in space.items():
        yield f".{name} = ", item


def _is_iterator(cls: type) -> bool:
    """Iterators written in C that can tell where they are."""
    return module_of(cls) in ("builtins", "itertools") and "__next__" in namespace_of(cls)


def _iterator_state(value: Any) -> object:
    reduce = namespace_of(type(value)).get("__reduce__")
    if reduce is None:
        return None
    _, args, *state = reduce(value)
    return Listing([*args, *state])


def _own_parts(value: Any, cls: type) -> Children:
    """What an exception or a defaultdict has beside its contents and attributes."""
    if inherits(cls, BaseException):
        yield "args ", BaseException.args.__get__(value)  # type: ignore[attr-defined]
        yield "cause ", value.__cause__
        yield "context ", value.__context__
        yield "suppress ", value.__suppress_context__
    elif inherits(cls, collections.defaultdict):
        default: Any = collections.defaultdict.__dict__["default_factory"]
        yield "default ", default.__get__(value)


def _own_state(cls: type) -> bool:
    """Whether instances have attributes of their own: a dict or slots."""
    return any(
        type(member) is types.MemberDescriptorType
        or (name == "__dict__" and type(member) is types.GetSetDescriptorType)
        for k in mro_of(cls)
        for name, member in namespace_of(k).items()
    )


def _instance_state(value: Any, cls: type) -> Children:
    for k in mro_of(cls):
        for name, member in namespace_of(k).items():
            if name == "__dict__" and type(member) is types.GetSetDescriptorType:
                for key, item in member.__get__(value).items():
                    if "_hooks" in key and type(item) is collections.OrderedDict:
                        # Keys come from a counter of the whole process.
                        yield f".{key} = ", Listing(item.values())
                    else:
                        yield f".{key} = ", item
            elif type(member) is types.MemberDescriptorType and not inherits(
                cls, BaseException, functools.partial
            ):
                try:
                    yield f".{name} = ", member.__get__(value)
                except AttributeError:
                    continue
