"""What a run left behind, as text: two runs on fresh objects are equal when their texts are.

Comes in: results, arguments, world objects. Goes out: lines that tell exact types, values (tensors
bit by bit, with dtype, strides, storage and autograd metadata), and which objects and which memory
are the same.

Nothing here runs code of the program: no `==`, `hash`, `repr`, `getattr` or iteration of a user
class. Everything goes through `type(x)` and the layout base's own methods.
"""

import collections
import enum
import functools
import hashlib
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor

Children: TypeAlias = Iterator[tuple[str, object]]

_TEXTS: Final = (int, float, complex, str, bytes, bytearray)
# By id: comparing classes with == would ask a metaclass.
_ATOMS: Final = frozenset(
    map(id, (type(None), bool, *_TEXTS[:-1], type(...), type(NotImplemented), range))
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
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")

# The slots of `type`, read past any metaclass.
_SLOTS: Final[Any] = type.__dict__
_qualname: Final[Callable[[type], str]] = _SLOTS["__qualname__"].__get__
_module: Final[Callable[[type], str]] = _SLOTS["__module__"].__get__
_namespace: Final[Callable[[type], types.MappingProxyType[str, Any]]] = _SLOTS["__dict__"].__get__
_mro: Final[Callable[[type], tuple[type, ...]]] = _SLOTS["__mro__"].__get__


def same(a: object, b: object) -> bool:
    """Whether two objects are equal in structure, values, types and aliasing."""
    return describe(a) == describe(b)


def describe(value: object) -> list[str]:
    return Describer().describe("", value)


def type_name(cls: type) -> str:
    return f"{_module(cls)}.{_qualname(cls)}"


def layout_base(cls: type, *bases: type) -> type | None:
    """The first of these classes in the method resolution order; asks no metaclass."""
    return next((k for k in _mro(cls) for base in bases if k is base), None)


def inherits(cls: type, *bases: type) -> bool:
    return layout_base(cls, *bases) is not None


class Listing(list[object]):
    """A list made for the description only: it has no identity."""


class Describer:
    """One walk over a graph of objects; an object met twice is shown as a reference."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.kept: list[object] = []  # an id is only meaningful while the object lives
        self.memory: list[object] = []

    def describe(self, label: str, value: object) -> list[str]:
        """Objects that an earlier call described are shown as references too."""
        return list(self._lines(label, value, 0))

    def identities(self) -> list[int]:
        """The objects met, in order: the same list after a change that replaced none of them."""
        return [id(kept) for kept in self.kept]

    def tensors(self) -> list[torch.Tensor]:
        kept: list[Any] = self.kept
        return [value for value in kept if inherits(type(value), torch.Tensor)]

    def _lines(self, label: str, value: object, depth: int) -> Iterator[str]:
        indent = "  " * depth
        if _is_atom(value):
            yield f"{indent}{label}{_without_addresses(repr(value))}"
            return
        if type(value) is Listing:
            yield f"{indent}{label}listing"
            for position, item in enumerate(value):
                yield from self._lines(f"[{position}] ", item, depth + 1)
            return
        number = self.seen.get(id(value))
        if number is not None:
            yield f"{indent}{label}the same object as #{number}"
            return
        number = self.seen[id(value)] = len(self.seen) + 1
        self.kept.append(value)
        cls = type(value)
        yield f"{indent}{label}{self._headline(value, cls)} #{number}"
        if depth > 60:
            raise RecursionError("an object too deep to describe")
        for child_label, child in self._children(value, cls):
            yield from self._lines(child_label, child, depth + 1)

    def _headline(self, value: Any, cls: type) -> str:
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
        if inherits(cls, *_TEXTS):
            base: Any = layout_base(cls, *_TEXTS)
            return f"{type_name(cls)} {base.__repr__(value)}"
        if inherits(cls, collections.deque):
            limit = collections.deque.maxlen.__get__(value)
            return f"{type_name(cls)} maxlen={limit}"
        if inherits(cls, *_CONTAINERS, BaseException) or _own_state(cls):
            return type_name(cls)
        if cls in (types.MethodType, functools.partial, types.CellType, slice, *_VIEWS):
            return type_name(cls)
        if _is_iterator(cls):
            return type_name(cls)
        return f"{type_name(cls)} {_without_addresses(repr(value))}"

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

    def _children(self, value: Any, cls: type) -> Children:
        if inherits(cls, torch.Tensor):
            yield from _tensor_parts(value, cls)
        elif inherits(cls, type) or cls is types.ModuleType or inherits(cls, enum.Enum):
            return
        elif cls is types.FunctionType:
            if not _is_global(value):
                yield from _function_parts(value)
        elif cls is types.CellType:
            yield from _cell_contents(value)
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
            yield from _contents(value, cls)
            yield from _instance_state(value, cls)


def _is_atom(value: object) -> bool:
    """Immutable, without identity worth comparing: CPython shares and copies these as it likes."""
    cls = type(value)
    if id(cls) in _ATOMS or id(cls) in _VALUES:
        return True
    if cls is tuple or cls is frozenset or cls is torch.Size:
        return all(_is_atom(item) for item in value)  # type: ignore[attr-defined]
    return False


def _without_addresses(text: str) -> str:
    """Two runs never place their objects at the same address."""
    return _ADDRESS.sub("0x…", text)


def _is_global(value: Any) -> bool:
    """Whether a class or function is what its module and name say, the same one in every run."""
    if type(value) is types.FunctionType:
        module, name = value.__module__, value.__qualname__
    else:
        module, name = _module(value), _qualname(value)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        if found is None:
            return False
        is_class = inherits(type(found), type)
        space = _namespace(found) if is_class else getattr(found, "__dict__", {})
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


def _function_parts(function: types.FunctionType) -> Children:
    yield "defaults ", function.__defaults__
    yield "keyword defaults ", function.__kwdefaults__
    yield "attributes ", function.__dict__
    yield "line ", function.__code__.co_firstlineno
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"closure {name}: ", cell


def _cell_contents(cell: types.CellType) -> Children:
    try:
        yield "contents ", cell.cell_contents
    except ValueError:
        return


def _is_iterator(cls: type) -> bool:
    """Iterators written in C that can tell where they are."""
    return _module(cls) in ("builtins", "itertools") and "__next__" in _namespace(cls)


def _iterator_state(value: Any) -> object:
    reduce = _namespace(type(value)).get("__reduce__")
    if reduce is None:
        return None
    _, args, *state = reduce(value)
    return Listing([*args, *state])


def _any(cls: type | None) -> Any:
    """A class whose methods are called as functions, past any override."""
    return cls


def _contents(value: Any, cls: type) -> Children:
    if inherits(cls, BaseException):
        yield "args ", BaseException.args.__get__(value)  # type: ignore[attr-defined]
        yield "cause ", value.__cause__
        yield "context ", value.__context__
        yield "suppress ", value.__suppress_context__
    elif base := _any(layout_base(cls, collections.OrderedDict, dict, types.MappingProxyType)):
        if inherits(cls, collections.defaultdict):
            default: Any = collections.defaultdict.__dict__["default_factory"]
            yield "default ", default.__get__(value)
        for key, item in base.items(value):
            yield "key ", key
            yield "  = ", item
    elif base := _any(layout_base(cls, list, tuple, collections.deque)):
        for position, item in enumerate(base.__iter__(value)):
            yield f"[{position}] ", item
    elif base := _any(layout_base(cls, set, frozenset)):
        for lines in sorted(describe(item) for item in base.__iter__(value)):
            yield "member ", "\n".join(lines)


def _own_state(cls: type) -> bool:
    """Whether instances have attributes of their own: a dict or slots."""
    return any(
        type(member) is types.MemberDescriptorType
        or (name == "__dict__" and type(member) is types.GetSetDescriptorType)
        for k in _mro(cls)
        for name, member in _namespace(k).items()
    )


def _instance_state(value: Any, cls: type) -> Children:
    for k in _mro(cls):
        for name, member in _namespace(k).items():
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
