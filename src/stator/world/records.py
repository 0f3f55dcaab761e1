"""Shadows: objects that stand for mutable world objects while a function is traced.

A shadow is a real object of the same type as the raw one, made with the layout base's `__new__` and
filled as it is read. Its `Record` knows the raw object, its source, how far it is filled, and what
it held when it was filled, so that writes can be told from reads at the end.
"""

from array import array
from collections import OrderedDict, defaultdict, deque
from functools import partial
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final
from weakref import ref

from stator import objects
from stator.guards import Field, Slot, Source

MISSING: Final = object()

SEQUENCES: Final = objects.TypeSet(list, deque)
DICTS: Final = objects.TypeSet(dict, OrderedDict, defaultdict)
SETS: Final = objects.TypeSet(set)
CONTAINERS: Final = objects.TypeSet(
    list, deque, dict, OrderedDict, defaultdict, set, bytearray, array
)


class Record:
    """What is known of one shadow."""

    __slots__ = (
        "_raw_dict",
        "absent",
        "attributes",
        "attributes_filled",
        "base",
        "changed_names",
        "deleted",
        "dict",
        "fields",
        "filled",
        "initial",
        "items",
        "limit",
        "owner",
        "plain_keys",
        "plain_length",
        "raw",
        "shadow",
        "slots",
        "source",
        "touched",
        "traceback",
        "weak",
        "writes",
    )

    def __init__(self, shadow: Any, raw: Any, source: Source, base: type) -> None:
        self.shadow = shadow
        self.raw = raw
        self.source = source
        self.base = base
        self.touched = False  # whether the program has ever changed it
        self.changed_names: set[Any] = set()  # of attributes, or keys, that it has changed
        # contents, of containers
        self.filled = not CONTAINERS.holds(base)
        self.items: dict[Any, Any] = {}  # read or written one by one, before it was filled
        self.absent: set[Any] = set()  # keys that were found missing
        self.writes: set[Any] = set()  # keys among those that were written; dicts only
        self.initial: Any = None  # what the shadow was filled with
        self.weak: list[Any] = []  # what it refers to weakly, and forgets when that dies
        self.limit: Any = MISSING  # of a deque, once it is guarded
        # instance attributes: initial value, or MISSING, of each that was read
        self.attributes: dict[str, Any] = {}
        self.deleted: set[str] = set()  # attributes that were deleted, and may be set again
        self.dict: dict[str, Any] | None = objects.instance_dict(shadow)
        self._raw_dict: Any = MISSING
        self.attributes_filled = self.dict is None
        self.slots: dict[str, Any] | None = None  # initial values, once they were read
        self.fields: list[tuple[Any, Any]] = []  # C fields of an exception, and what they held
        self.traceback: Any = None  # the stand-in of an exception's
        self.owner: Record | None = None  # of an instance's `__dict__`: the instance's record
        self.plain_length: int | None = None  # guarded
        self.plain_keys: bool | None = None  # whether keys are hashed by C code alone

    @property
    def grown(self) -> bool:
        """Whether the program has appended to a list that is not filled: that needs no reading.

        The shadow holds what was appended; the rest is put before it when it is filled.
        """
        return not self.filled and self.base is list and list.__len__(self.shadow) > 0

    @property
    def raw_dict(self) -> dict[str, Any] | None:
        """The raw object's own attributes; asked late, since asking may make the dict."""
        if self._raw_dict is MISSING:
            self._raw_dict = objects.known_dict(self.raw)
        found: dict[str, Any] | None = self._raw_dict
        return found


class DictRecord(Record):
    """The record of a shadow's `__dict__`: filled together with the shadow's attributes."""

    __slots__ = ()

    def __init__(self, owner: Record) -> None:
        super().__init__(owner.dict, owner.raw_dict, owner.source, dict)
        self.owner = owner


def dict_source(record: Record) -> Source | None:
    """Where the dict is in which an object keeps its attributes; None if C code doesn't tell."""
    for owner in objects.mro(type(record.shadow)):
        descriptor = objects.type_dict(owner).get("__dict__")
        if type(descriptor) is GetSetDescriptorType:
            return Field(record.source, descriptor)
        if type(descriptor) is MemberDescriptorType:  # of a namespace
            return Slot(record.source, descriptor)
    return None


def make_shadow(raw: Any, cls: type, base: type) -> Any:
    """An empty object of the same type; raises TypeError where CPython makes none."""
    if base is deque:
        shadow: Any = deque.__new__(cls)
        deque.__init__(shadow, (), MAXLEN.__get__(raw))
        return shadow
    new: Any = base.__new__
    if base is array:
        return new(cls, TYPECODE.__get__(raw))
    return new(cls)


FACTORY: Any = defaultdict.__dict__["default_factory"]
_CALLBACK: Any = ref.__dict__["__callback__"]
TYPECODE: Any = array.__dict__["typecode"]
MAXLEN: Any = deque.__dict__["maxlen"]
OF_PARTIAL: Final[Any] = [partial.__dict__[name] for name in ("func", "args", "keywords")]
SET_PARTIAL: Final[Any] = partial.__dict__["__setstate__"]


def forgets(value: Any) -> bool:
    """Whether it is a weak reference that somebody takes away when its object has died."""
    return objects.is_subtype(type(value), ref) and _CALLBACK.__get__(value) is not None


def raw_items(raw: Any, base: type) -> list[Any]:
    """The contents by the layout base's own iteration: no user code."""
    iterate: Any = base.__dict__["__iter__"]
    return list(iterate(raw))


def pairs(container: Any, base: type) -> list[tuple[Any, Any]]:
    """Items of a dict, in the order the layout base keeps; hashes keys of OrderedDicts only."""
    if base is OrderedDict:
        return [(key, dict.__getitem__(container, key)) for key in OrderedDict.__iter__(container)]
    return list(dict.items(container))
