"""Objects of the program by name: modules, classes, functions, what C code defines.

Stage: store. In: an object. Out: where it is found, as data, and the same object from that data in
another process; `Stale` if what is found there is not what was meant. Attributes are read from the
dicts of modules and classes themselves, so no code of the program runs, and only torch, stator and
the standard library are imported for it: whatever else an entry needs is loaded when it is right.
"""

import enum
import functools
import importlib
import sys
import types
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from enum import EnumMeta
from typing import Any, Final

import torch

from stator import objects
from stator.store.digests import of_code
from stator.store.reasons import Reason, Stale, Unstorable

C_FUNCTIONS: Final = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)
_OWN: Final = ("torch", "stator")
_MISSING: Final = object()


def module_named(name: str) -> types.ModuleType:
    """A module that is loaded; ours, torch's and the standard library's are loaded for it."""
    found = sys.modules.get(name)
    root = name.partition(".")[0]
    if found is None and (root in _OWN or root in sys.stdlib_module_names):
        try:
            found = importlib.import_module(name)
        except Exception as error:
            raise Stale(f"the module {name} can't be loaded: {error}") from None
    if found is None:
        raise Stale(f"the module {name} is not loaded")
    return found


def attribute(owner: Any, name: str) -> Any:
    """What a module, a class or a namespace holds under a name, without asking its own code."""
    if objects.is_subtype(type(owner), types.ModuleType):
        return types.ModuleType.__getattribute__(owner, "__dict__").get(name, _MISSING)
    if objects.is_subtype(type(owner), type):
        return objects.type_dict(owner).get(name, _MISSING)
    if name in INSIDE.get(type(owner), ()):
        return getattr(owner, name)
    return _MISSING


INSIDE: Final[dict[type, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools.cached_property: ("func",),
    types.DynamicClassAttribute: ("fget", "fset", "fdel"),
    enum.property: ("fget", "fset", "fdel"),
}
"""Where the functions are in what stands in a class around them."""


TUPLE_FIELD: Final[Any] = type(namedtuple("_Sample", "field").field)  # type: ignore[attr-defined]
"""What stands in the class of a named tuple for one of its items."""


def follow(module: str, path: str) -> Any:
    """The object at a dotted path in a module."""
    return followed(module_named(module), path)


def followed(owner: Any, path: str) -> Any:
    """The object at a dotted path in a module or a class."""
    found = owner
    for name in path.split("."):
        found = attribute(found, name)
        if found is _MISSING:
            raise Stale(f"there is no {path} any more")
    return found


OPERATORS: Final = ("aten", "prims", "prim")
"""Those of torch itself: what they do is said by its version. Others have kernels, and say what
these make of fake tensors, in code of the program that no guard knows."""


def operators_of(name: str) -> Any:
    """`torch.ops.<name>`, of torch itself."""
    if name not in OPERATORS:
        raise Stale(f"torch.ops.{name} is the program's")
    return getattr(torch.ops, name)


def operators_in(namespace: dict[str, Any]) -> str | None:
    """Whose attributes are in a dict, if it is one of `OPERATORS`."""
    found = (name for name in OPERATORS if operators_of(name).__dict__ is namespace)
    return next(found, None)


def module_of_class(cls: Any) -> str | None:
    """The name of a module that is an instance of a class of its own, as some of torch are."""
    if not objects.is_subtype(cls, types.ModuleType):
        return None
    loaded = list(sys.modules.items())
    return next((name for name, each in loaded if type(each) is cls), None)


def single_place(value: Any) -> tuple[str, str] | None:
    """Where an object is found that torch or the standard library has in the module of its class,
    such as what stands for a missing default.
    """
    module = objects.types.module_of(type(value))
    root = module.partition(".")[0] if type(module) is str else ""
    if root == "builtins" or not (root in _OWN or root in sys.stdlib_module_names):
        return None
    return next(_held(value, (str(module),)), None)


def members_of(cls: Any) -> Iterator[tuple[types.FunctionType, str]]:
    """The functions that a class has, and where in it."""
    for name, value in list(objects.type_dict(cls).items()):
        if type(name) is not str or "." in name:
            continue
        if type(value) is types.FunctionType:
            yield value, name
        for part in INSIDE.get(type(value), ()):
            function = getattr(value, part)
            if type(function) is types.FunctionType:
                yield function, f"{name}.{part}"


def module_name(value: types.ModuleType) -> str | None:
    """The name under which a module is loaded."""
    name = types.ModuleType.__getattribute__(value, "__dict__").get("__name__")
    if type(name) is str and sys.modules.get(name) is value:
        return name
    return next((key for key, each in list(sys.modules.items()) if each is value), None)


def file_of(module: Any) -> str | None:
    """The file that a module says it is from."""
    if not objects.is_subtype(type(module), types.ModuleType):
        return None
    found = types.ModuleType.__getattribute__(module, "__dict__").get("__file__")
    return found if type(found) is str else None


def module_in(file: str) -> str | None:
    """The name of a module that is from a file."""
    loaded = list(sys.modules.items())
    return next((name for name, each in loaded if file_of(each) == file), None)


def place_of(value: Any) -> tuple[str, str] | None:
    """The module and path at which exactly this object is found."""
    for module, path in _candidates(value):
        try:
            found = follow(module, path)
        except Stale:
            continue
        if found is value:
            return module, path
        for name in INSIDE.get(type(found), ()):
            if getattr(found, name) is value:
                return module, f"{path}.{name}"
    return None


def _candidates(value: Any) -> Iterator[tuple[str, str]]:
    kind = type(value)
    module: Any
    path: Any
    if objects.is_subtype(kind, type):
        module = objects.type_dict(value).get("__module__")
        path = type.__dict__["__qualname__"].__get__(value)
        if not isinstance(module, str):
            module = "builtins"
    elif kind is types.FunctionType:
        module, path = value.__module__, value.__qualname__
        if type(module) is str and type(path) is str:
            yield module, path
            if "<locals>" in path and module.partition(".")[0] == "torch":
                yield from _held(value, _TORCHS)
        return
    elif kind is types.BuiltinFunctionType:
        module, path = value.__module__, value.__qualname__
        owner = value.__self__
        if module is None and objects.is_subtype(type(owner), types.ModuleType):
            module = module_name(owner)
        if type(module) is str and type(path) is str:
            yield module, path
        yield from _c_places(value)
        return
    else:
        return
    if type(module) is str and type(path) is str:
        yield module, path
        yield from _held(value, (module, *_TYPE_MODULES))


_TYPE_MODULES: Final = ("types", "torch._C", "torch", "_collections", "collections", "typing")


def _held(value: Any, modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Where it is held under another name than its own."""
    for module in modules:
        loaded = sys.modules.get(module)
        if objects.is_subtype(type(loaded), types.ModuleType):
            namespace = types.ModuleType.__getattribute__(loaded, "__dict__")
            for key, each in list(namespace.items()):
                if each is value and type(key) is str:
                    yield module, key


_C_MODULES: Final = (
    "torch",
    "torch._C",
    "torch._C._nn",
    "torch._C._functions",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
    "torch._C._dynamo.guards",
    "torch.nn.functional",
    "_operator",
    "operator",
    "math",
    "builtins",
)


def _c_places(value: Any) -> Iterator[tuple[str, str]]:
    """C functions of torch say little of where they are."""
    name = value.__name__
    for module in _C_MODULES:
        if module in sys.modules:
            yield module, name
    yield from _held(value, _C_MODULES)


_LATE: Final = ("stator.capture", "stator.driver", "stator.graph", "stator.api")
"""What takes long to load: another module that holds the same is the better name for it."""


def own_place(value: Any) -> tuple[str, str] | None:
    """The place of an object that a module of stator holds: it lives as long as the process."""
    own = [name for name in list(sys.modules) if name.partition(".")[0] == "stator"]
    own.sort(key=lambda name: name.startswith(_LATE))
    return next(_held(value, own), None)


def own_named(module: str, name: str) -> Any:
    if module.partition(".")[0] != "stator":
        raise Stale(f"{module} is not stator's")
    return follow(module, name)


# ---------------------------------------------------------------------- code in code


def inside(code: types.CodeType, wanted: types.CodeType) -> tuple[int, ...] | None:
    """Where a code object is among the constants of another one, and of those inside of it."""
    if code is wanted:
        return ()
    for index, constant in enumerate(code.co_consts):
        if type(constant) is types.CodeType:
            found = inside(constant, wanted)
            if found is not None:
                return index, *found
    return None


def at(code: types.CodeType, steps: tuple[int, ...]) -> types.CodeType:
    found: Any = code
    for index in steps:
        if type(found) is not types.CodeType or not 0 <= index < len(found.co_consts):
            raise Stale("a code object is not where it was")
        found = found.co_consts[index]
    if type(found) is not types.CodeType:
        raise Stale("a code object is not where it was")
    return found


def same_code(code: types.CodeType, expected: str, what: str) -> None:
    if of_code(code) != expected:
        raise Stale(f"{what} is written differently")


# ---------------------------------------------------------------------- what may be called

_CALLABLE: Final = frozenset(
    {
        *_OWN,
        "_collections",
        "_functools",
        "_operator",
        "collections",
        "functools",
        "itertools",
        "math",
        "numpy",
        "operator",
        "warnings",
        "logging",
        "weakref",
        "_weakref",
        "array",
        "types",
    }
)
_BUILTINS: Final = frozenset(
    {
        *("abs", "bool", "bytearray", "bytes", "callable", "classmethod", "complex", "dict"),
        *("divmod", "enumerate", "filter", "float", "frozenset", "hasattr", "int", "isinstance"),
        *("iter", "len", "list", "map", "max", "min", "next", "object", "pow", "print"),
        *("property", "range", "reversed", "round", "set", "slice", "staticmethod", "str"),
        *("sum", "super", "tuple", "type", "zip"),
    }
)
_NEVER: Final = frozenset({"from_file"})
_TORCHS: Final = (
    *("torch.nn.functional", "torch.functional", "torch._jit_internal", "torch._tensor"),
    *("torch.nn.init", "torch.autograd.grad_mode", "torch.special", "torch.linalg", "torch.fft"),
)
"""Modules whose Python functions are operators."""
_OWN_PACKAGES: Final = (
    *("stator.graph", "stator.emit", "stator.effects", "stator.capture", "stator.backends"),
    *("stator.torchlib", "stator._native", "stator.objects", "stator.evaluator"),
)


def check_callable(function: Any) -> None:
    """Refuses what stored data may not have called: a file is data, not a program.

    Allowed is what residual functions and graphs consist of: operators of torch, functions of C
    without effects outside of their arguments. Functions of the program are called only where the
    program itself calls them (`Step`, `Perform`), and are found by name there.
    """
    kind = type(function)
    where: Any = getattr(function, "__module__", None)
    if kind in C_FUNCTIONS[1:]:  # methods of C types, whose owner is named
        owner = function.__self__ if kind is types.MethodWrapperType else function.__objclass__
        where = type(owner).__module__ if kind is types.MethodWrapperType else owner.__module__
        if where == "builtins":
            return
    if kind is types.BuiltinFunctionType and where is None:
        owner = function.__self__
        where = owner.__name__ if type(owner) is types.ModuleType else _class_of(owner).__module__
        if where == "builtins" and type(owner) is not types.ModuleType:
            return
    if type(where) is not str:
        where = type(function).__module__
    root = where.partition(".")[0]
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "")
    full = f"{where}.{name}"
    if root == "torch" and (name in _NEVER or not _is_operator(function, where)):
        raise Unstorable(Reason.CALLED, full)
    if root == "stator" and ".".join(where.split(".")[:2]) not in _OWN_PACKAGES:
        raise Unstorable(Reason.CALLED, full)
    if root in _CALLABLE or (where == "builtins" and str(name).split(".")[0] in _BUILTINS):
        return
    raise Unstorable(Reason.CALLED, full)


def _is_operator(function: Any, where: str) -> bool:
    """Whether a function of torch computes something, and does nothing else."""
    if type(function) is types.FunctionType:
        return where in _TORCHS
    return where != "torch._C" or _is_taken(function)


def _is_taken(function: Any) -> bool:
    """Whether stator itself has this function in torchlib, its door to torch."""
    names = [name for name in list(sys.modules) if name.startswith("stator.torchlib.")]
    return next(_held(function, names), None) is not None


def _class_of(value: Any) -> Any:
    return value if objects.is_subtype(type(value), type) else type(value)


# ---------------------------------------------------------------------- enum members


def enum_member(value: Any) -> str | None:
    """The name of a member of an enum class; None of anything else."""
    if not objects.is_subtype(type(type(value)), EnumMeta):
        return None
    members = objects.type_dict(type(value)).get("_member_map_")
    if type(members) is not dict:
        return None
    return next((name for name, each in members.items() if each is value), None)


_UNDER: Final[dict[type, Callable[[Any], Any]]] = {
    object: lambda member: None,
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda member: bytes(bytes.__iter__(member)),
    tuple: lambda member: tuple(tuple.__iter__(member)),
}


def under_member(member: Any) -> Any:
    """What a member is besides its attributes: the number or the text that C code sees."""
    base = objects.layout_base(type(member))
    tell = _UNDER.get(base)
    if tell is None:
        raise Unstorable(Reason.OBJECT, f"a member of an enum that is a {base.__qualname__}")
    return tell(member)


def member_named(cls: Any, name: str) -> Any:
    members = objects.type_dict(cls).get("_member_map_")
    if type(members) is not dict or name not in members:
        raise Stale(f"there is no {cls.__qualname__}.{name}")
    return members[name]
