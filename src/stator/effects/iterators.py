"""Recipes for what refers to containers: C iterators, views, weak references, type aliases.

Stage: effects. C iterators tell how to make them again by `__reduce__`, which is C code. What it
names (`iter`) would ask the container; the container's own C method is called instead.
"""

from __future__ import annotations

import gc
import itertools
import operator
import types
import warnings
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from stator import objects
from stator.effects.instances import add_state
from stator.effects.model import CannotRebuild, Constant
from stator.effects.node import Node, Recipe, new, raws
from stator.effects.steps import SELF, Call, Expr, Helper, Raw, Tuple
from stator.objects.types import name_of


def reduced(value: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """What `__reduce__` of the exact C type says: callable, arguments, state or None."""
    method = objects.lookup(type(value), "__reduce__")
    if method is None or type(method.value) is not types.MethodDescriptorType:
        raise CannotRebuild(f"a {name_of(type(value))}: it does not tell what it holds")
    function, args, *state = _quietly(method.value, value)
    return function, args, state[0] if state else None


def _quietly(method: Callable[[Any], Any], value: Any) -> Any:
    if not is_deprecated(value):  # the filters are everybody's
        return method(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return method(value)


def is_deprecated(value: Any) -> bool:
    """itertools deprecates `__reduce__` and `__setstate__` since 3.12."""
    return type(value).__module__ == "itertools"


def with_state(value: Any, make: Expr, state: Any) -> Node:
    """A node whose C `__setstate__` is called last: it may look at what it iterates over."""
    node = Node(value, make)
    if state is not None:
        method = objects.type_dict(type(value))["__setstate__"]
        if is_deprecated(value):
            helper = Helper.SET_STATE
            args: tuple[Expr, ...] = (Constant(method), SELF, Raw(state))
            node.late.append(Call(helper, args, helper.value))
        else:
            name = f"{name_of(type(value))}_setstate"
            node.late.append(Call(method, (SELF, Raw(state)), name))
    return node


# -- iterators over one container of a known type --

_START: Final[dict[type, tuple[type, Callable[..., Any]]]] = {
    type(iter([])): (list, list.__iter__),
    type(reversed([])): (list, list.__reversed__),
    type(iter(())): (tuple, tuple.__iter__),
    type(iter("")): (str, str.__iter__),
    type(iter("é")): (str, str.__iter__),
    type(iter(b"")): (bytes, bytes.__iter__),
    type(iter(bytearray())): (bytearray, bytearray.__iter__),
    type(iter(array("b"))): (array, array.__iter__),
    type(iter(range(0))): (range, range.__iter__),
    type(iter(range(1 << 70))): (range, range.__iter__),
}


def sequence_iterator_node(value: Any) -> Node:
    """An iterator with an index; an exhausted one iterates over an empty container."""
    base, start = _START[type(value)]
    _, args, state = reduced(value)
    (container,) = args
    if not objects.is_subtype(type(container), base):
        # exhausted: whatever stands for nothing here
        container = array("b") if base is array else base()
    name = "reversed" if base is list and start is list.__reversed__ else "iter"
    if name == "iter" and state == 0:
        state = None  # as it starts
    return with_state(value, Call(start, (Raw(container),), f"{base.__name__}_{name}"), state)


def deque_iterator_node(value: Any) -> Node:
    _, args, _ = reduced(value)
    make = Call(type(value), raws(args), name_of(type(value)).strip("_"))
    return Node(value, make, complete=True)


def callable_iterator_node(value: Any) -> Node:
    """`iter(callable, sentinel)`, which only stores them."""
    _, args, _ = reduced(value)
    if len(args) != 2:  # exhausted
        return Node(value, Call(iter, (Constant(_never), Constant(None)), "iter"))
    return Node(value, Call(iter, raws(args), "iter"))


def _never() -> None:
    """Ends the iteration of a callable iterator at once."""


# -- iterators over dicts and sets --

_DICT_ITERATORS: Final[dict[type, tuple[type, Callable[[Any], Iterator[Any]], str]]] = {
    type(iter({})): (dict, dict.__iter__, "dict_iter"),
    type(reversed({})): (dict, dict.__reversed__, "dict_reversed"),
}
_VIEW_ITERATORS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any], str]]] = {
    type(make(getter({}))): (getter, make, f"{kind}_{way}")
    for kind, getter in (("values", dict.values), ("items", dict.items))
    for way, make in (
        ("iter", objects.type_dict(type(getter({})))["__iter__"]),
        ("reversed", objects.type_dict(type(getter({})))["__reversed__"]),
    )
}


def _referent(value: Any, base: type) -> Any:
    """The container an iterator or view holds; None when it is exhausted."""
    for held in gc.get_referents(value):
        if objects.is_subtype(type(held), base):
            return held
    return None


def dict_iterator_node(value: Any) -> Node:
    """Made anew over the dict, then advanced; the dict must be as it was when it started."""
    cls = type(value)
    container = _referent(value, dict)
    if container is None:
        container = {}
    if cls in _DICT_ITERATORS:
        _, start, name = _DICT_ITERATORS[cls]
        fresh = start(container)
        make = Call(start, (Raw(container),), name)
    else:
        view, start, name = _VIEW_ITERATORS[cls]
        fresh = start(view(container))
        make = Call(start, (Call(view, (Raw(container),), name.split("_")[0]),), name)
    try:
        _, args, _ = reduced(value)
    except RuntimeError:
        raise CannotRebuild(f"a {name_of(cls)} over a dict that has changed since") from None
    rest, everything = list(args[0]), list(fresh)
    done = len(everything) - len(rest)
    if done < 0 or not all(map(_same, rest, everything[done:])):
        raise CannotRebuild(f"a {name_of(cls)} over a dict that has changed since")
    return _advanced(value, make, done)


def _same(a: Any, b: Any) -> bool:
    """The same object; items are pairs made on the way."""
    if type(a) is tuple and type(b) is tuple and len(a) == len(b) == 2:
        return a is b or (a[0] is b[0] and a[1] is b[1])
    return a is b


def _advanced(value: Any, make: Expr, done: int) -> Node:
    if done:
        make = Call(Helper.ADVANCE, (make, Constant(done)), Helper.ADVANCE.value)
    return Node(value, make, complete=True)


def set_iterator_node(value: Any) -> Node:
    """Only an unstarted one: another set with the same elements may have another order."""
    for base in (set, frozenset):
        container = _referent(value, base)
        if container is None:
            continue
        _, args, _ = reduced(value)
        if len(args[0]) != base.__len__(container):
            raise CannotRebuild("an iterator that has started over a set")
        make = Call(base.__iter__, (Raw(container),), f"{base.__name__}_iter")
        return Node(value, make, complete=True)
    return Node(value, Call(set.__iter__, (Raw(set()),), "set_iter"), complete=True)


# -- iterators over iterators, and other things that C code reduces to its own constructor --

OF_ITERTOOLS: Final[tuple[type, ...]] = tuple(
    found for _, found in sorted(vars(itertools).items()) if type(found) is type
)
REDUCED: Final[tuple[type, ...]] = (
    enumerate,
    filter,
    map,
    zip,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    *(found for found in OF_ITERTOOLS if "__reduce__" in vars(found)),
)


def reduced_node(value: Any) -> Node:
    """The constructor asks what it is given for `__iter__`: that must be C code too."""
    function, args, state = reduced(value)
    for part in (*args, *(state if type(state) is tuple else ())):
        _require_c_iter(value, part)
    if function is not type(value):
        # `accumulate` with an initial value and others say it in terms of other iterators.
        raise CannotRebuild(f"a {name_of(type(value))} in this state")
    return with_state(value, Call(function, raws(args), name_of(type(value)).strip("_")), state)


def _require_c_iter(value: Any, part: Any) -> None:
    found = objects.lookup(type(part), "__iter__")
    if found is not None and type(found.value) is types.FunctionType:
        what, of = name_of(type(value)), name_of(type(part))
        raise CannotRebuild(f"a {what} over a {of}: its __iter__ would run")


def reversed_node(value: Any) -> Node:
    function, args, state = reduced(value)
    sequence = args[0]
    if type(sequence) not in (tuple, str, bytes, bytearray, list):
        raise CannotRebuild(f"a reversed {name_of(type(sequence))}")
    return with_state(value, Call(function, raws(args), "reversed"), state)


# -- views, weak references, type aliases --

_GETTERS: Final[tuple[tuple[type, str, Callable[[Any], Any]], ...]] = (
    (dict, "keys", dict.keys),
    (dict, "values", dict.values),
    (dict, "items", dict.items),
    (OrderedDict, "keys", OrderedDict.keys),
    (OrderedDict, "values", OrderedDict.values),
    (OrderedDict, "items", OrderedDict.items),
)
VIEWS: Final[dict[type, tuple[Callable[[Any], Any], str]]] = {
    type(getter(base())): (getter, f"{base.__name__}_{name}") for base, name, getter in _GETTERS
}


def view_node(value: Any) -> Node:
    getter, name = VIEWS[type(value)]
    return Node(value, Call(getter, (Raw(_referent(value, dict)),), name))


def proxy_node(value: Any) -> Node:
    (mapping,) = gc.get_referents(value)
    return Node(value, Call(types.MappingProxyType, (Raw(mapping),), "mappingproxy"))


def reference_node(value: Any) -> Node:
    referent, callback = weakref.ref.__call__(value), value.__callback__
    if referent is None and type(value) is not weakref.ref:
        raise CannotRebuild(f"a {name_of(type(value))} to an object that is gone")
    if referent is None:
        name = Helper.DEAD_REFERENCE.value
        return Node(value, Call(Helper.DEAD_REFERENCE, (), name))
    args = raws((referent,) if callback is None else (referent, callback))
    if type(value) is weakref.ref:
        return Node(value, Call(weakref.ref, args, "ref"))
    return add_state(Node(value, new(weakref.ref, value, *args)))


_UNPACKED: Final[Any] = types.GenericAlias.__dict__["__unpacked__"]
_ALIAS_ITER: Final[Any] = types.GenericAlias.__dict__["__iter__"]


def alias_node(value: Any) -> Node:
    """`list[int]`."""
    parts = tuple(
        types.GenericAlias.__dict__[name].__get__(value) for name in ("__origin__", "__args__")
    )
    make = Call(types.GenericAlias, raws(parts), "GenericAlias")
    if _UNPACKED.__get__(value):  # `*list[int]`, which iterating over the alias gives
        make = Call(next, (Call(_ALIAS_ITER, (make,), "alias_iter"),), "next")
    return Node(value, make)


def union_node(value: Any) -> Node:
    """`int | None`; a metaclass may have an `__or__` of its own, which must not run."""
    args = types.UnionType.__dict__["__args__"].__get__(value)
    for arg in args:
        if type(arg) not in (type, types.GenericAlias):
            raise CannotRebuild(f"a union with a {name_of(type(arg))}")
    return Node(value, Call(Helper.UNION, (Tuple(raws(args)),), Helper.UNION.value))


SEQUENCE_ITERATORS: Final = tuple(_START)
DICT_ITERATORS: Final = (*_DICT_ITERATORS, *_VIEW_ITERATORS)
DEQUE_ITERATORS: Final[tuple[type, ...]] = (type(iter(deque())), type(reversed(deque())))
SET_ITERATOR: Final[type] = type(iter(set()))
CALLABLE_ITERATOR: Final = type(iter(int, 1))

RECIPES: Final[dict[type, Recipe]] = {
    **dict.fromkeys(SEQUENCE_ITERATORS, sequence_iterator_node),
    **dict.fromkeys(DICT_ITERATORS, dict_iterator_node),
    **dict.fromkeys(DEQUE_ITERATORS, deque_iterator_node),
    **dict.fromkeys(REDUCED, reduced_node),
    **dict.fromkeys(VIEWS, view_node),
    SET_ITERATOR: set_iterator_node,
    CALLABLE_ITERATOR: callable_iterator_node,
    reversed: reversed_node,
    types.MappingProxyType: proxy_node,
    types.GenericAlias: alias_node,
    types.UnionType: union_node,
}
