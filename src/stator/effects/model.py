"""What a trace hands over: where values come from, and what it changed.

Stage: after tracing. In: nothing, these are plain data, made by the tracer. Out: `Ref`s, the
answers of the tracer's `resolve(value)`, and `Effect`s, the net changes of objects that existed
before the call. `plan` turns both into steps.

Values are never compared, hashed or printed with their own methods: they are the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, TypeAlias

from stator.effects.exits import Entry
from stator.guards import Source
from stator.guards.text import show


class CannotRebuild(Exception):  # noqa: N818 - an answer, not an error
    """A value has no recipe; the text says which and why."""

    value: Any = None


# -- where a value comes from --


@dataclass(frozen=True, eq=False, repr=False)
class Fetched:
    """The object that is at the source when the call starts."""

    source: Source

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True, eq=False, repr=False)
class Output:
    """An output of the graph."""

    index: int

    def __str__(self) -> str:
        return f"outputs[{self.index}]"


@dataclass(frozen=True, eq=False, repr=False)
class Constant:
    """This very object."""

    value: Any

    def __str__(self) -> str:
        return show(self.value)


Ref: TypeAlias = Fetched | Output | Constant
Resolve: TypeAlias = Callable[[Any], Ref | None]


# -- what changed --


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """A change of the object at `target`, made with its layout base's own methods."""

    target: Source


@dataclass(frozen=True, eq=False, repr=False)
class ListContents(Effect):
    """The list has exactly these items."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ListExtended(Effect):
    """The list has these items, too, at its end."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class DictContents(Effect):
    """The dict has exactly these items, in this order."""

    pairs: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, eq=False, repr=False)
class SetContents(Effect):
    """The set has exactly these elements; as they lie in `layout`, where that can be told."""

    items: tuple[Any, ...]
    layout: AbstractSet[Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class DequeContents(Effect):
    """The deque has exactly these items; its maxlen stays, unless it has got another."""

    items: tuple[Any, ...]
    limit: tuple[int | None] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ByteArrayContents(Effect):
    """The bytearray has exactly these bytes."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class ArrayContents(Effect):
    """The `array.array` has exactly the numbers of another one, of the same type code."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class AttrSet(Effect):
    """An attribute in the instance's own dict.

    `kind` is the target's exact type, if a guard says it: then its dict is found without a search.
    """

    name: str
    value: Any
    kind: type | None = None


@dataclass(frozen=True, eq=False, repr=False)
class AttrDel(Effect):
    """An attribute leaves the instance's own dict."""

    name: str
    kind: type | None = None


@dataclass(frozen=True, eq=False, repr=False)
class SlotSet(Effect):
    """A `__slots__` member, or a writable field of a C type."""

    descriptor: MemberDescriptorType | GetSetDescriptorType
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class SlotDel(Effect):
    """A `__slots__` member becomes empty."""

    descriptor: MemberDescriptorType | GetSetDescriptorType


@dataclass(frozen=True, eq=False, repr=False)
class StateSet(Effect):
    """All that a C object holds is set at once, by its `__setstate__` or a function like it."""

    method: Any
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class Passed(Effect):
    """An exception has passed these places in the call, and before them those of a traceback."""

    places: tuple[Entry, ...]
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class KeySet(Effect):
    """One item of a dict: a global, an attribute of a module."""

    key: Any
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class KeyDel(Effect):
    """One item leaves a dict."""

    key: Any


@dataclass(frozen=True, eq=False, repr=False)
class CellSet(Effect):
    """A cell's contents."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class CellDel(Effect):
    """A cell becomes empty."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassAttrSet(Effect):
    """An attribute of a class, past its metaclass's `__setattr__`."""

    name: str
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class ClassAttrDel(Effect):
    """An attribute leaves a class."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Perform(Effect):
    """The function at `target` is called: `print`, for one. Calls come in program order, last."""

    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Advanced(Effect):
    """An iterator has given items, or said that it has none."""

    times: int = 1
    """How often it was asked."""


@dataclass(frozen=True, eq=False, repr=False)
class Ask(Perform):
    """A function with a cache is asked, so that it counts the call and keeps its answer."""

    held: bool = False
    """Whether guards say that the cache holds the answer: then the function itself does not run."""


def values_of(effect: Effect) -> Iterator[Any]:
    """The values an effect writes, as they are to be resolved."""
    match effect:
        case ListContents() | ListExtended() | SetContents() | DequeContents():
            yield from effect.items
        case DictContents():
            for key, value in effect.pairs:
                yield key
                yield value
        case KeySet():
            yield effect.key
            yield effect.value
        case KeyDel():
            yield effect.key
        case AttrSet() | SlotSet() | StateSet() | CellSet() | ClassAttrSet() | Passed():
            yield effect.value
        case ArrayContents():
            yield effect.value
        case Perform():
            yield from effect.args
            for _, value in effect.keywords:
                yield value
