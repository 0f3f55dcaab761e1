"""Describes values so that two runs of a call can be compared.

The parts of the arguments carry *labels*: which object an outcome holds counts, not its value.
So a call that only moves its arguments' items around has the same outcome whatever they are.
Nothing here runs a special method of an object under test.
"""

import functools
import re
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

from stator.bytecode.tables import TABLES

Labels = dict[int, str]

_LIST_ITERATOR: type = type(iter([]))
_ATOMS = (int, float, complex, str, bytes, bool, type(None), range, types.EllipsisType)
_SEQUENCES = (list, tuple, deque, set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_DRIVERS = ("enumerate", "reversed", "zip", "map", "filter", "list_reverseiterator")


def layout(cls: type, *bases: type) -> type | None:
    return next((base for base in cls.__mro__ if base in bases), None)


def content(value: Any) -> object:
    try:
        return bytes(value)
    except ValueError as error:
        return error  # a released memoryview


def is_class(value: object) -> bool:
    return type in type(value).__mro__


def is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & 1 << 9)


def parts(value: Any) -> list[Any]:
    """What an object holds, through items or attributes."""
    cls = type(value)
    if base := layout(cls, *_SEQUENCES):
        found = list(base.__iter__(value))  # type: ignore[attr-defined]
    elif layout(cls, *_MAPPINGS):
        found = [*map(_key, dict.keys(value)), *dict.values(value)]
    elif cls in _VIEWS:
        found = parts(dict(value.mapping))
    elif cls is _LIST_ITERATOR:
        reduced = value.__reduce__()
        found = [reduced[1][0], *reduced[2:]]
    elif cls.__module__ == "itertools" or cls.__name__ in _DRIVERS:
        found = list(value.__reduce__()[1:]) if "__reduce__" in vars(cls) else []
    elif "__length_hint__" in vars(cls):
        found = [value.__length_hint__()]
    elif cls.__name__ == "Slotted":
        found = [getattr(value, "slot", None)]
    elif cls is types.FunctionType:
        found = [value.__defaults__]
    elif cls is property:
        found = [value.fget, value.fset, value.fdel]
    elif cls is types.ModuleType:
        found = parts(vars(value))
    elif cls.__name__ == "array":
        found = value.tolist()
    elif cls is slice:
        found = [value.start, value.stop, value.step]
    elif cls is functools.partial:
        found = [value.func, value.args, value.keywords]
    elif cls is types.MethodType:
        found = [value.__self__, value.__func__]
    elif cls is types.CellType:
        found = [value.cell_contents]
    elif cls is types.GeneratorType:
        found = [value.gi_frame and value.gi_frame.f_lasti]
    elif BaseException in cls.__mro__:
        found = [value.args, *getattr(value, "exceptions", ())]
    elif cls is super:
        found = [value.__self__]
    else:
        found = []
    return [*found, *attributes(value)]


def attributes(value: Any) -> list[Any]:
    if is_class(value) or type(value) in (types.ModuleType, types.FunctionType):
        return []
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [*map(_key, namespace), *namespace.values()] if type(namespace) is dict else []


def _key(key: object) -> object:
    """Names are interned at will, so which object they are does not count."""
    return f".{key}" if type(key) is str else key


def unmistakable(value: object) -> bool:
    """Whether an object can be told from all others: not a cached number or text."""
    cls = type(value)
    if cls is int:
        return value not in TABLES.small_ints
    if cls in (str, bytes, tuple, frozenset):
        return len(value) > 1  # type: ignore[arg-type]
    return cls not in (bool, type(None)) and not is_class(value)


def describe(value: Any, labels: Labels, top: bool = False, depth: int = 0) -> str:
    """Text for a value; equal texts mean equal structure up to labelled objects."""
    if not top and id(value) in labels:
        return f"<{labels[id(value)]}>"
    cls = type(value)
    if cls in _ATOMS:
        return repr(value)
    if depth > 6:
        return "…"
    name = f"class {value.__name__}" if is_class(value) else cls.__name__
    if layout(cls, bytearray, memoryview):
        name += repr(content(value))
    if is_class(value) and is_heap_type(value):
        # Asking a class for its annotations makes them: not of interest.
        name += str(sorted({*type.__dict__["__dict__"].__get__(value)} - {"__annotations__"}))
    if cls.__name__ == "Struct":
        name += value.format
    if cls.__name__ in ("Pattern", "Match"):
        name += re.sub(r"0x\w+", "", repr(value))
    inner = [describe(part, labels, depth=depth + 1) for part in parts(value)]
    if layout(cls, set, frozenset):
        inner.sort()
    return f"{name}({', '.join(inner)})"
