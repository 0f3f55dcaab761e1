"""What residual functions call where no single C function will do.

Stage: run time, after the graph. In: real objects. Nothing here runs the program's code: contents
are changed with the layout base's own methods, attributes in the instance's own dict.
"""

from __future__ import annotations

import functools
import operator
import warnings
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn

from stator import objects
from stator._native._core import NULL, get_handled_exception
from stator.effects.exits import Entry
from stator.effects.steps import Helper
from stator.emit import reports
from stator.emit.classes import as_subclass
from stator.emit.looks import shown
from stator.emit.spent import spent
from stator.emit.traceback import chain

EVERYTHING: Final = slice(None)

_set_ordered: Final = OrderedDict.__setitem__
_get_context: Final = BaseException.__dict__["__context__"].__get__
_set_context: Final = BaseException.__dict__["__context__"].__set__
_get_traceback: Final = BaseException.__dict__["__traceback__"].__get__
_set_traceback: Final = BaseException.__dict__["__traceback__"].__set__

# -- building --


def fill_ordered(target: OrderedDict[Any, Any], pairs: tuple[tuple[Any, Any], ...]) -> None:
    """Puts the pairs in; `OrderedDict.update` would ask a subclass for `__setitem__`."""
    for key, value in pairs:
        _set_ordered(target, key, value)


def advance(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    """The iterator, which is one of C, after some items."""
    for _ in range(steps):
        next(iterator)
    return iterator


def dead_reference() -> weakref.ref[Any]:
    return weakref.ref(_Mortal())


class _Mortal:
    """Dies at once."""


def set_state(method: Callable[[Any, Any], None], iterator: Any, state: Any) -> None:
    """`__setstate__` of an iterator of itertools."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        method(iterator, state)


def union(members: tuple[Any, ...]) -> Any:
    return functools.reduce(operator.or_, members)


def set_traceback(
    exception: BaseException, places: Sequence[Entry], before: TracebackType | None
) -> None:
    _set_traceback(exception, chain(places, before))


HELPERS: Final[dict[Helper, Callable[..., Any]]] = {
    Helper.FILL_ORDERED: fill_ordered,
    Helper.ADVANCE: advance,
    Helper.DEAD_REFERENCE: dead_reference,
    Helper.SET_STATE: set_state,
    Helper.UNION: union,
    Helper.SHOWN: shown,
    Helper.AS_SUBCLASS: as_subclass,
    Helper.SPENT: spent,
    Helper.SET_TRACEBACK: set_traceback,
    Helper.LOG: reports.log,
    Helper.WARN: reports.warn,
    Helper.SHOW_WARNING: reports.show_warning,
}

# -- effects --


def set_list(target: list[Any], items: list[Any]) -> None:
    list.__setitem__(target, EVERYTHING, items)


def set_bytearray(target: bytearray, content: bytes) -> None:
    bytearray.__setitem__(target, EVERYTHING, content)


def set_array(target: array[Any], content: array[Any]) -> None:
    array.__setitem__(target, EVERYTHING, content)


# Not looked up while they are needed: the target may be the dict of the builtins.
_clear: Final = dict.clear
_update: Final = dict.update
_delete: Final = dict.__delitem__

# Keys that can be told apart without code of the program: equal ones of one type are the same.
_PLAIN: Final = frozenset({str, int, bool, bytes, type(None)})


def set_dict(target: dict[Any, Any], contents: dict[Any, Any]) -> None:
    """What stays is left where it is: an iterator may be on its way through the dict.

    An OrderedDict keeps an order of its own: only its own methods keep it right.
    """
    is_ordered = _is_ordered(target)
    before = list(OrderedDict.__iter__(target) if is_ordered else dict.__iter__(target))
    remove = OrderedDict.__delitem__ if is_ordered else _delete
    kinds = [*map(type, before)], [*map(type, contents)]
    if not _PLAIN.issuperset(kinds[0]) or not _PLAIN.issuperset(kinds[1]):
        (OrderedDict.clear if is_ordered else _clear)(target)
    elif kinds[0] != kinds[1] or before != list(contents):
        for key in _left_out(before, contents):
            remove(target, key)
    if is_ordered:
        fill_ordered(target, tuple(contents.items()))  # type: ignore[arg-type]
    else:
        _update(target, contents)


def _left_out(before: list[Any], contents: Iterable[Any]) -> list[Any]:
    """The keys that are not there any more, or behind one that has been entered since."""
    left = []
    coming = iter(contents)
    key = next(coming, NULL)
    for each in before:
        if each == key and type(each) is type(key):
            key = next(coming, NULL)
        else:
            left.append(each)
    return left


def set_set(target: set[Any], elements: tuple[Any, ...]) -> None:
    """Elements that are not all constants: those have a layout, which is taken over.

    What stays is left where it is: the order is that of a set to which the same was done.
    """
    kept = {_element(each) for each in elements}
    gone = [each for each in set.__iter__(target) if _element(each) not in kept]
    set.difference_update(target, gone)
    set.update(target, elements)


def _element(value: Any) -> Any:
    """Equal constants of one type are the same; other elements are themselves alone."""
    return (type(value), value) if type(value) in _PLAIN else id(value)


def set_deque(target: deque[Any], items: list[Any]) -> None:
    """As long as before, it is as if items were put in the place of others."""
    if deque.__len__(target) != len(items):
        deque.clear(target)
        deque.extend(target, items)
        return
    for index, (before, item) in enumerate(zip(list(deque.__iter__(target)), items, strict=True)):
        if before is not item:
            deque.__setitem__(target, index, item)


def set_key(target: dict[Any, Any], key: Any, value: Any) -> None:
    if type(target) is dict:
        target[key] = value
    elif _is_ordered(target):
        _set_ordered(target, key, value)
    else:
        dict.__setitem__(target, key, value)


def del_key(target: dict[Any, Any], key: Any) -> None:
    if not dict.__contains__(target, key):
        return
    if _is_ordered(target):
        OrderedDict.__delitem__(target, key)
    else:
        dict.__delitem__(target, key)


def attributes(target: Any) -> dict[Any, Any]:
    """The dict an instance keeps its attributes in; made now, if nobody has asked for it yet."""
    found = objects.instance_dict(target)
    if found is None:
        raise TypeError(f"{type(target).__name__} object has no __dict__")
    return found


def _is_ordered(target: dict[Any, Any]) -> bool:
    return type(target) is not dict and objects.is_subtype(type(target), OrderedDict)


# -- leaving by an exception --


def leave(exception: BaseException, frames: Sequence[Entry] = ()) -> NoReturn:
    """Raises an exception whose causes and contexts are made already.

    As when it was raised in the program: what the caller is handling ends the chain of contexts.
    Raising it plainly would put that in the place of its own context; so it is put back, and the
    exception goes on, without this function in its traceback: behind the residual function come the
    frames it passed in the program, then those that it had passed before the call.
    """
    handled = get_handled_exception()
    if handled is not None:
        last = exception
        seen = {id(last)}
        while (context := _get_context(last)) is not None and id(context) not in seen:
            seen.add(id(context))
            last = context
        if id(handled) not in seen and _get_context(last) is None:
            _set_context(last, handled)
    context, before = _get_context(exception), _get_traceback(exception)
    try:
        raise exception
    except BaseException:
        _set_context(exception, context)
        _set_traceback(exception, chain(frames, before))
        raise
