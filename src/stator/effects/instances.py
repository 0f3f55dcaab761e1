"""Recipes for instances: the instance dict, slots, and what exceptions keep in C fields.

Stage: effects.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType, SimpleNamespace
from typing import Any, Final

from stator import objects
from stator._native._core import is_python_class
from stator.effects.exits import Entry, earlier, entries
from stator.effects.model import CannotRebuild, Constant
from stator.effects.node import Attributes, Node, new, raws, store
from stator.effects.steps import SELF, Call, Dict, Expr, Helper, Raw, Tuple
from stator.objects.types import name_of

_FIELDS: Final = (MemberDescriptorType, GetSetDescriptorType)


def dict_descriptor(cls: type) -> Any:
    """The C descriptor through which instances of a type have their dict, or None."""
    for owner in objects.mro(cls):
        descriptor = objects.type_dict(owner).get("__dict__")
        if type(descriptor) in _FIELDS:
            return descriptor
    return None


def add_state(node: Node) -> Node:
    """Adds what a class statement gives to instances: the dict and the slots."""
    cls = type(node.value)
    for descriptor in slots(cls):
        try:
            held = descriptor.__get__(node.value)
        except AttributeError:  # empty
            continue
        node.fills.append(store(descriptor, Raw(held)))
    add_attributes(node)
    return node


def slots(cls: type) -> list[MemberDescriptorType]:
    """The `__slots__` of all classes of the MRO; one may hide another of the same name."""
    found: dict[int, MemberDescriptorType] = {}
    for owner in objects.mro(cls):
        if not is_python_class(owner):
            continue
        for value in objects.type_dict(owner).values():
            # A class may also hold, under any name, a slot of a class that is not its base.
            if type(value) is MemberDescriptorType and objects.is_subtype(cls, value.__objclass__):
                found[id(value)] = value
    return list(found.values())


def add_attributes(node: Node) -> None:
    """Adds the instance dict, if there is one."""
    cls = type(node.value)
    held = objects.instance_dict(node.value)
    if held is None:
        return
    descriptor = dict_descriptor(cls)
    get = descriptor.__get__
    fill: Expr | None = None
    if dict.__len__(held):
        pairs = tuple((Raw(key), Raw(value)) for key, value in dict.items(held))
        own = Call(get, (SELF,), f"dict_of_{name_of(cls)}")
        fill = Call(dict.update, (own, Dict(pairs)), "dict_update")
    # A namespace's dict is a read-only member.
    settable = type(descriptor) is GetSetDescriptorType
    set_ = descriptor.__set__ if settable else None
    node.attributes = Attributes(node.value, held, get, set_, fill)


def instance_node(value: Any) -> Node:
    """A plain instance: nothing but a dict and slots."""
    return add_state(Node(value, new(object, value)))


def namespace_node(value: Any) -> Node:
    return add_state(Node(value, new(SimpleNamespace, value)))


# -- exceptions --

_CAUSE: Final = BaseException.__dict__["__cause__"]
_CONTEXT: Final = BaseException.__dict__["__context__"]
_SUPPRESS: Final = BaseException.__dict__["__suppress_context__"]
_ARGS: Final = BaseException.__dict__["args"]


def exception_node(value: Any) -> Node:
    """Made by the C base's `__new__` without arguments; then `args` and the C fields are set.

    The frames of its traceback are gone; there are stubs in their place.
    """
    cls = type(value)
    base = objects.layout_base(cls)
    if base.__module__ != "builtins":
        raise CannotRebuild(f"an exception of the C type {base.__module__}.{base.__qualname__}")
    args = _ARGS.__get__(value)
    fills: list[Expr] = []
    if objects.is_subtype(cls, BaseExceptionGroup):
        make = new(BaseExceptionGroup, value, Raw(value.message), Tuple(raws(value.exceptions)))
        fills.append(store(_ARGS, Raw(args)))
    else:
        make = new(base, value)
        if args:
            fills.append(store(_ARGS, Raw(args)))
        fills += _c_fields(value, base)
    fills += _chain(value)
    passed, before = entries(value), earlier(value)
    if passed or before is not None:
        fills.append(_set_traceback(passed, Raw(before)))
    return add_state(Node(value, make, fills))


def _set_traceback(passed: tuple[Entry, ...], before: Expr) -> Call:
    helper = Helper.SET_TRACEBACK
    return Call(helper, (SELF, Constant(passed), before), helper.value)


def forget_traceback(node: Node) -> None:
    """The exception will get one when it is raised; it keeps what it was given."""
    for index, each in enumerate(node.fills):
        if type(each) is Call and each.function is Helper.SET_TRACEBACK:
            before = each.args[-1]
            given = type(before) is Raw and before.value is not None
            node.fills[index : index + 1] = [_set_traceback((), before)] if given else []
            return


def _c_fields(value: Any, base: type) -> list[Expr]:
    """Fields of OSError, StopIteration, SystemExit, ImportError, UnicodeError …"""
    fills: list[Expr] = []
    for owner in objects.mro(base):
        if owner is BaseException:
            break
        for name, descriptor in objects.type_dict(owner).items():
            if type(descriptor) not in _FIELDS or name == "__dict__":
                continue
            try:
                held = descriptor.__get__(value)
            except (AttributeError, TypeError):  # never set
                continue
            if held is not None:  # which an empty field answers too
                fills.append(store(descriptor, Raw(held)))
    return fills


def _chain(value: BaseException) -> list[Expr]:
    fills: list[Expr] = []
    cause, context = _CAUSE.__get__(value), _CONTEXT.__get__(value)
    if cause is not None:
        fills.append(store(_CAUSE, Raw(cause)))
    if context is not None:
        fills.append(store(_CONTEXT, Raw(context)))
    suppress = _SUPPRESS.__get__(value)
    if suppress is not (cause is not None):  # setting a cause sets it
        fills.append(store(_SUPPRESS, Constant(suppress)))
    return fills
