"""Recipes for callables: functions, cells, bound methods, partial, and what wraps functions.

Stage: effects.
"""

from __future__ import annotations

import functools
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

from stator import objects
from stator.effects.instances import add_attributes, add_state
from stator.effects.model import CannotRebuild, Constant
from stator.effects.node import Node, new, raws, store
from stator.effects.result_hooks import REGISTER, method_of
from stator.effects.steps import SELF, Call, Expr, Raw, Tuple
from stator.objects.annotations import annotate_of, are_made
from stator.objects.types import name_of

_CONTENTS: Final = CellType.__dict__["cell_contents"]
_FUNCTION: Final = FunctionType.__dict__
# Set after the function is made, where they differ from what `FunctionType` gives.
_FUNCTION_FIELDS: Final = tuple(
    _FUNCTION[name]
    for name in ("__qualname__", "__doc__", "__module__", "__kwdefaults__", "__type_params__")
    if name in _FUNCTION
)


def cell_node(value: Any) -> Node:
    make = Call(CellType, (), "cell")
    try:
        held = value.cell_contents
    except ValueError:
        return Node(value, make)
    return Node(
        value, make, [store(_CONTENTS, Raw(held))], whole=Call(CellType, (Raw(held),), "cell")
    )


def function_node(value: Any) -> Node:
    """`FunctionType` and what it does not take."""
    args: list[Expr] = [Raw(value.__code__), Raw(value.__globals__), Constant(value.__name__)]
    defaults, closure = value.__defaults__, value.__closure__
    if defaults is not None or closure is not None:
        args.append(Raw(defaults))
    if closure is not None:
        args.append(Tuple(raws(closure)))
    node = Node(value, Call(FunctionType, tuple(args), "function"))
    usual = FunctionType(value.__code__, value.__globals__, closure=closure)
    for descriptor in _FUNCTION_FIELDS:
        held = descriptor.__get__(value)
        default = descriptor.__get__(usual)
        # Strings and None are shared by both functions unless the program assigned others.
        if held is not default and not (type(held) is tuple and not held):
            node.fills.append(store(descriptor, Raw(held)))
    _add_annotations(node, value)
    add_attributes(node)
    return node


def _add_annotations(node: Node, value: Any) -> None:
    """The annotations of a function, or what will make them: to set one of both drops the other."""
    annotate = annotate_of(value)
    if annotate is None:
        if value.__annotations__:
            node.fills.append(store(_FUNCTION["__annotations__"], Raw(value.__annotations__)))
        return
    if are_made(value):
        raise CannotRebuild(f"the function {value.__name__}, whose annotations have been read")
    node.fills.append(store(_FUNCTION["__annotate__"], Raw(annotate)))


def method_node(value: Any) -> Node:
    if value.__func__ is REGISTER:
        return Node(value, Call(method_of, (Raw(value.__self__),), "register_hook_of"))
    return Node(value, Call(MethodType, raws((value.__func__, value.__self__)), "method"))


def builtin_node(value: Any) -> Node | None:
    """A method of a C type bound to an object; None for a function of a module."""
    owner, name = value.__self__, value.__name__
    if owner is None or type(owner) is ModuleType:
        return None
    if objects.is_subtype(type(owner), type):
        return _class_builtin_node(value, owner, name)
    for cls in objects.mro(type(owner)):
        found = objects.type_dict(cls).get(name)
        if type(found) is MethodDescriptorType and found.__get__(owner) == value:
            return Node(value, Call(found.__get__, (Raw(owner),), f"bind_{name}"))
    raise CannotRebuild(f"the bound C method {name} of a {name_of(type(owner))}")


def _class_builtin_node(value: Any, owner: type, name: str) -> Node | None:
    for cls in objects.mro(owner):
        found = objects.type_dict(cls).get(name)
        if type(found) is ClassMethodDescriptorType:
            args = (Constant(None), Raw(owner))
            return Node(value, Call(found.__get__, args, f"bind_{name}"))
        if type(found) is BuiltinFunctionType:  # `__new__`: a fixed function of a C type
            return None
    raise CannotRebuild(f"the C method {name} of the class {name_of(owner)}")


def wrapper_node(value: Any) -> Node:
    """A bound slot, such as `[].__len__`."""
    slot = objects.type_dict(value.__objclass__)[value.__name__]
    return Node(value, Call(slot.__get__, (Raw(value.__self__),), f"bind_{value.__name__}"))


_SET_PARTIAL: Final = functools.partial.__dict__["__setstate__"]


def _nothing() -> None:
    """Stands in a partial until it is filled."""


def partial_node(value: Any) -> Node:
    """`__setstate__` takes the parts as they are; the constructor would flatten nested partials."""
    parts = tuple(
        functools.partial.__dict__[name].__get__(value) for name in ("func", "args", "keywords")
    )
    state = Tuple((*raws(parts), Constant(None)))
    fill = Call(_SET_PARTIAL, (SELF, state), "partial_setstate")
    make = new(functools.partial, value, Constant(_nothing))
    return add_state(Node(value, make, [fill]))


# What staticmethod, classmethod and property read from a callable they wrap is C data of these.
_WRAPPABLE: Final = (FunctionType, BuiltinFunctionType, MethodDescriptorType, type(None))


def _require_wrappable(value: Any, *parts: Any) -> None:
    for part in parts:
        if type(part) not in _WRAPPABLE:
            wrapper, wrapped = name_of(type(value)), name_of(type(part))
            raise CannotRebuild(f"a {wrapper} of a {wrapped}: it would read its attributes")


def wrapping_node(value: Any) -> Node:
    """A staticmethod or classmethod object."""
    function = type(value).__dict__["__func__"].__get__(value)
    _require_wrappable(value, function)
    cls = type(value)
    return Node(value, Call(cls, (Raw(function),), name_of(cls)))


def property_node(value: Any) -> Node:
    parts = tuple(property.__dict__[name].__get__(value) for name in ("fget", "fset", "fdel"))
    _require_wrappable(value, *parts)
    doc = property.__dict__["__doc__"].__get__(value)
    return Node(value, Call(property, (*raws(parts), Raw(doc)), "property"))
