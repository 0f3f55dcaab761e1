"""Recipes for containers: contents are read and written with the layout base's own methods.

Stage: effects.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from stator import objects
from stator._native import _core as core
from stator.effects.instances import add_state
from stator.effects.model import CannotRebuild, Constant
from stator.effects.node import Node, new, raws, store
from stator.effects.steps import SELF, Call, Dict, Expr, Helper, List, Raw, Set, Tuple
from stator.objects.sets import layout
from stator.objects.types import name_of

_DEFAULT_FACTORY: Final = defaultdict.__dict__["default_factory"]
_TYPECODE: Final[Any] = array.__dict__["typecode"]
_MAXLEN: Final = deque.__dict__["maxlen"]


def tuple_node(value: Any) -> Node:
    items = Tuple(raws(tuple.__iter__(value)))
    if type(value) is tuple:
        return Node(value, items)
    return add_state(Node(value, new(tuple, value, items)))


def struct_node(value: Any) -> Node:
    """A tuple type of C with a `__new__` of its own: struct sequences, torch.Size."""
    base = objects.layout_base(type(value))
    items = Tuple(raws(tuple.__iter__(value)))
    return add_state(Node(value, new(base, value, items)))


def list_node(value: Any) -> Node:
    items = List(raws(list.__iter__(value)))
    fills: list[Expr] = [Call(list.extend, (SELF, items), "list_extend")] if items.items else []
    if type(value) is list:
        return Node(value, List(()), fills, whole=items)
    return add_state(Node(value, new(list, value), fills))


def dict_pairs(value: Any) -> tuple[tuple[Raw, Raw], ...]:
    """The items of a dict, in its own order."""
    return tuple((Raw(key), Raw(item)) for key, item in dict.items(value))


def dict_node(value: Any) -> Node:
    items = Dict(dict_pairs(value))
    fills: list[Expr] = [Call(dict.update, (SELF, items), "dict_update")] if items.pairs else []
    if type(value) is dict:
        return Node(value, Dict(()), fills, whole=items)
    return add_state(Node(value, new(dict, value), fills))


def defaultdict_node(value: Any) -> Node:
    items = Dict(dict_pairs(value))
    fills: list[Expr] = [Call(dict.update, (SELF, items), "dict_update")] if items.pairs else []
    factory = _DEFAULT_FACTORY.__get__(value)
    if factory is not None:
        fills.append(store(_DEFAULT_FACTORY, Raw(factory)))
    return add_state(Node(value, new(defaultdict, value), fills))


def ordered_node(value: Any) -> Node:
    """An OrderedDict keeps an order of its own, which only its own methods know."""
    pairs = tuple(
        Tuple((Raw(key), Raw(dict.__getitem__(value, key)))) for key in OrderedDict.__iter__(value)
    )
    fills: list[Expr] = []
    if pairs:
        fills.append(Call(Helper.FILL_ORDERED, (SELF, Tuple(pairs)), Helper.FILL_ORDERED.value))
    return add_state(Node(value, new(OrderedDict, value), fills))


def set_node(value: Any) -> Node:
    elements = raws(set.__iter__(value))
    fills: list[Expr] = []
    lies = _lies_otherwise(value, set)
    if lies is not None:
        fills.append(_taking_over(lies))
        make = Call(set, (), "set") if type(value) is set else new(set, value)
        return add_state(Node(value, make, fills))
    if elements:
        fills.append(Call(set.update, (SELF, Tuple(elements)), "set_update"))
    if type(value) is set:
        return Node(value, Call(set, (), "set"), fills, whole=Set(elements) if elements else None)
    return add_state(Node(value, new(set, value), fills))


def frozenset_node(value: Any) -> Node:
    elements = Tuple(raws(frozenset.__iter__(value)))
    lies = _lies_otherwise(value, frozenset)
    fills: list[Expr] = [] if lies is None else [_taking_over(lies)]
    return add_state(Node(value, new(frozenset, value, elements), fills))


def _lies_otherwise(value: Any, base: type[Any]) -> AbstractSet[Any] | None:
    """What a set of constants is a copy of, if it would not come out so by itself."""
    found = layout(value)
    if found is None or len(found) < 2:
        return None
    elements = tuple(base.__iter__(value))
    ways = (base(elements), set(frozenset(elements)))  # the second as a display of constants
    return None if all(core.set_lies_as(value, each) for each in ways) else found


def _taking_over(lies: AbstractSet[Any]) -> Expr:
    return Call(core.set_take_over, (SELF, Constant(lies)), "set_take_over")


def deque_node(value: Any) -> Node:
    items = List(raws(deque.__iter__(value)))
    maxlen = _MAXLEN.__get__(value)
    fills: list[Expr] = []
    if items.items or maxlen is not None:
        args = (SELF, items) if maxlen is None else (SELF, items, Constant(maxlen))
        fills.append(Call(deque.__init__, args, "deque_init"))
    return add_state(Node(value, new(deque, value), fills))


def bytearray_node(value: Any) -> Node:
    content = bytes(value) if type(value) is bytearray else bytes(bytearray.__iter__(value))
    fills: list[Expr] = []
    if content:
        fills.append(Call(bytearray.extend, (SELF, Constant(content)), "bytearray_extend"))
    return add_state(Node(value, new(bytearray, value), fills))


def array_node(value: Any) -> Node:
    """An `array.array`: its numbers as they lie in memory."""
    kind, content = Constant(_TYPECODE.__get__(value)), Constant(array.tobytes(value))
    return add_state(Node(value, new(array, value, kind, content)))


def slice_node(value: Any) -> Node:
    return Node(value, Call(slice, raws((value.start, value.stop, value.step)), "slice"))


# -- subclasses of immutable types; their exact instances are constants --

_EXACT: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    complex: complex.__pos__,
}


def immutable_node(value: Any) -> Node:
    base = objects.layout_base(type(value))
    exact = _EXACT[base](value)
    if type(exact) is not base:
        raise CannotRebuild(f"the value of a {name_of(type(value))}")
    return add_state(Node(value, new(base, value, Constant(exact))))
