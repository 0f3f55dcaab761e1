"""From a callable to its contract, without running any code of the user.

Comes in: any object that is about to be called. Goes out: its `Contract`, or None: unknown.

Objects are compared by identity, types are walked by ``__mro__``, and attributes are read through
the descriptors of exact C types. A user's object is never hashed, compared or asked anything.
"""

import re
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from stator.objects.types import flags_of, mro, type_dict

from .contract import Argument, Contract
from .notation import parse
from .registry import ATTRIBUTE_KINDS, Registry
from .tables.rows import ATTRIBUTE, ATTRIBUTE_SET

_registry: Final = Registry()

_builtin_self = types.BuiltinFunctionType.__dict__["__self__"].__get__
_builtin_name = types.BuiltinFunctionType.__dict__["__name__"].__get__
_wrapper_self = types.MethodWrapperType.__dict__["__self__"].__get__
_wrapper_name = types.MethodWrapperType.__dict__["__name__"].__get__
_wrapper_class = types.MethodWrapperType.__dict__["__objclass__"].__get__
_method_function = types.MethodType.__dict__["__func__"].__get__
_bind_method: Final = types.MethodDescriptorType.__get__
_bind_classmethod: Final = types.ClassMethodDescriptorType.__get__
_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE
# The class that a C member belongs to, by kind. (The object of a builtin __new__ is its class.)
_OWNER: Final[dict[int, Callable[[object], object]]] = {
    id(types.BuiltinFunctionType): _builtin_self,
    **{
        id(kind): kind.__dict__["__objclass__"].__get__
        for kind in (
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.ClassMethodDescriptorType,
            types.GetSetDescriptorType,
            types.MemberDescriptorType,
        )
    },
}
_FROM_PYTHON: Final = ("__dict__", "__weakref__")
# A method that wants its defining class (METH_METHOD) becomes an object of another type.
_BUILTIN_METHOD: Final = type(re.compile("").match)


def lookup(function: object) -> Contract | None:
    """What this C callable does, or None if no table says so."""
    contract = _find(function)
    if contract is None and _registry.catch_up():
        contract = _find(function)
    if contract is None and _adopted(function):
        contract = _find(function)
    return contract


def known_type(cls: type) -> bool:
    """Whether all special methods of a type are known: written in Python, or of a listed C type.

    A callable that calls back runs the special methods of what it reads. Python ones are
    evaluated; those of a C type without a table may do anything.
    """
    return _known(cls) or (_registry.catch_up() and _known(cls))


def _known(cls: type) -> bool:
    return all(id(base) in _registry.members or _made_by_python(base) for base in mro(cls))


def _made_by_python(cls: type) -> bool:
    """Whether a class statement (or `type`) made it: then it defines nothing in C by itself."""
    if not flags_of(cls) & _HEAP_TYPE:
        return False
    for name, value in type_dict(cls).items():
        if type(name) is not str:
            continue  # a key that must not be compared is not one of C's names
        owner = _OWNER.get(id(type(value)))
        if owner is not None and owner(value) is cls:
            # Classes made by Python get these two, and their slots, from the interpreter.
            given = type(value) is types.GetSetDescriptorType and name in _FROM_PYTHON
            if not given and type(value) is not types.MemberDescriptorType:
                return False
    return True


def _adopted(function: object) -> bool:
    """Whether a C callable belongs to a type that a second import of its module has made."""
    is_builtin = type(function) is types.BuiltinFunctionType
    if is_builtin and type(_builtin_self(function)) is types.ModuleType:
        return _registry.adopt_function(function)
    if (owner := _OWNER.get(id(type(function)))) is not None:
        cls: Any = owner(function)
    elif type(function) is types.MethodWrapperType:
        cls = _wrapper_class(function)
    else:
        cls = function
    if type(cls) is not type:
        cls = type(cls)
    if id(cls) in _registry.members or not flags_of(cls) & _HEAP_TYPE or _made_by_python(cls):
        return False
    return _registry.adopt(cls)


def _find(function: object) -> Contract | None:
    if (found := _registry.contracts.get(id(function))) is not None:
        return found
    by_kind = _BY_KIND.get(id(type(function)), _instance)
    return by_kind(function)


def _builtin(function: object) -> Contract | None:
    """A function of a module has been found by its id; the others are bound methods."""
    bound_to, name = _builtin_self(function), _builtin_name(function)
    # Not `type in …`: that compares, and a metaclass may have a say in it.
    if any(base is type for base in mro(type(bound_to))):
        for members in _members_along(bound_to):
            member = members.get(name)
            if type(member) is types.ClassMethodDescriptorType and (
                _bind_classmethod(member, None, bound_to) == function
            ):
                return _registry.contracts.get(id(member))
    for members in _members_along(type(bound_to)):
        member = members.get(name)
        # The type is given because CPython crashes without it on METH_METHOD methods.
        # Equal builtins share the C function and the object, by address: super().pop of an
        # OrderedDict is dict's pop and no other.
        if type(member) is types.MethodDescriptorType and (
            _bind_method(member, bound_to, type(bound_to)) == function
        ):
            return _registry.contracts.get(id(member))
    return None


def _members_along(cls: Any) -> list[dict[str, object]]:
    """The members of the C types among a class's bases; Python's namespaces are not looked at."""
    known = _registry.members
    return [known[id(base)] for base in mro(cls) if id(base) in known]


def _method_wrapper(wrapper: object) -> Contract | None:
    bound_to, name = _wrapper_self(wrapper), _wrapper_name(wrapper)
    if any(type(bound_to) is kind for kind in ATTRIBUTE_KINDS):
        if name == "__get__":
            return _with_descriptor(_find(bound_to))
        if name in ("__set__", "__delete__"):
            return None if _find(bound_to) is None else parse(ATTRIBUTE_SET)
    member = _registry.members.get(id(_wrapper_class(wrapper)), {}).get(name)
    return _registry.contracts.get(id(member))


def _with_descriptor(contract: Contract | None) -> Contract | None:
    """The contract of reading an attribute as that of ``descriptor.__get__``: one more argument."""
    if contract is None:
        return None
    return replace(contract, arguments=(Argument(), *contract.arguments))


def _member_descriptor(_: object) -> Contract:
    """A slot of any class: reading it is reading an attribute, whoever defined it."""
    return parse(ATTRIBUTE)


def _method(method: object) -> Contract | None:
    """A method object made of a C function."""
    return _find(_method_function(method))


def _unknown(_: object) -> None:
    """What has no contract, unless it is listed itself."""


def _instance(instance: object) -> Contract | None:
    """An object of a C type that can be called, such as an itemgetter."""
    member = _registry.members.get(id(type(instance)), {}).get("__call__")
    return _registry.contracts.get(id(member))


_BY_KIND: Final[dict[int, Callable[[object], Contract | None]]] = {
    id(types.BuiltinFunctionType): _builtin,
    id(_BUILTIN_METHOD): _builtin,
    id(types.MethodWrapperType): _method_wrapper,
    id(types.MethodType): _method,
    id(types.MemberDescriptorType): _member_descriptor,
    id(types.GetSetDescriptorType): _unknown,
    id(types.MethodDescriptorType): _unknown,
    id(types.WrapperDescriptorType): _unknown,
    id(types.ClassMethodDescriptorType): _unknown,
    id(types.FunctionType): _unknown,
    id(type): _unknown,
}
