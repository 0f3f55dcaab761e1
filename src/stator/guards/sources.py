"""Sources: where a value comes from, as a path from the call.

Stage: guards. A source is a chain of small immutable nodes that ends in the call itself
(`Local`, `Function`), in an object held by the guard (`Fixed`) or in state outside the object
graph (`State`). Each node knows three things: the native operation that reads it (`op` and
`argument`), the slow Python meaning of that operation (`read`), and how to print it.

A trace makes one source per read, so making one is cheap: slots, no checks. Nothing assigns to
their fields afterwards.

No source runs user code: instance attributes are read from the instance's dict, class attributes
along the MRO, items with the layout base's own methods.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeVar

from stator._native import _core

from .fields import rename
from .layout import class_attributes, instance_dict, is_ordered
from .text import show

SOURCES: Final = {name: number for number, name in enumerate(_core.GUARD_SOURCES)}


class Missing(Exception):  # noqa: N818 - an answer, not an error
    """The source leads nowhere: a guard on it fails."""


class Call(Protocol):
    """What a source is read from: the bound parameters and the function called."""

    @property
    def locals(self) -> tuple[Any, ...]: ...
    @property
    def function(self) -> Any: ...


@dataclass(slots=True, eq=False)
class Source:
    """One step of a path: `base` is the step before, None at its start; `op` is a number."""

    op: ClassVar[int]

    @property
    def base(self) -> Source | None:
        return None

    @property
    def argument(self) -> Any:
        return None

    def read(self, base: Any, call: Call) -> Any:
        """The value, from the base's value; raises Missing."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()


S = TypeVar("S", bound=type[Source])


def reads(op: str, field: str | None = None) -> Callable[[S], S]:
    """The native operation of a class of sources, and the field that is its argument."""

    def mark(cls: S) -> S:
        cls.op = SOURCES[op]
        if field is not None:
            rename(cls, field, "argument")
        return cls

    return mark


# -- where paths start --


@reads("LOCAL", "index")
@dataclass(slots=True, eq=False)
class Local(Source):
    """A bound parameter, by its index in co_varnames."""

    index: int
    name: str = ""

    def read(self, base: Any, call: Call) -> Any:
        value = call.locals[self.index]
        if value is _core.NULL:
            raise Missing
        return value

    def text(self) -> str:
        return self.name or f"local {self.index}"


@reads("FUNCTION")
@dataclass(slots=True, eq=False)
class Function(Source):
    """The function being called."""

    def read(self, base: Any, call: Call) -> Any:
        if call.function is None:
            raise Missing
        return call.function

    def text(self) -> str:
        return "function"


@reads("FIXED", "value")
@dataclass(slots=True, eq=False)
class Fixed(Source):
    """An object the guards keep alive, such as another module's globals."""

    value: Any
    name: str = ""

    def read(self, base: Any, call: Call) -> Any:
        return self.value

    def text(self) -> str:
        return self.name or show(self.value)


@reads("CALL")
@dataclass(slots=True, eq=False)
class State(Source):
    """State outside the object graph, as a C function tells it, such as torch's grad mode."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    name: str = ""
    probe: object | None = None  # what saves the call, see guards.state

    @property
    def argument(self) -> tuple[Any, tuple[Any, ...], object | None]:
        return self.function, self.arguments, self.probe

    def read(self, base: Any, call: Call) -> Any:
        return self.function(*self.arguments)

    def text(self) -> str:
        return self.name or f"{self.function.__name__}()"


# -- steps --


@dataclass(slots=True, eq=False)
class Step(Source):
    """A step from another source."""

    of: Source


rename(Step, "of", "base")


def own_field(op: str, owner: type, attribute: str) -> type[Step]:
    """A step to a field that objects of exactly this type have."""
    member: Any = owner.__dict__[attribute]

    class OwnField(Step):
        __slots__ = ()

        def read(self, base: Any, call: Call) -> Any:
            if type(base) is not owner:
                raise Missing
            return member.__get__(base)

        def text(self) -> str:
            return f"{self.of}.{attribute}"

    return reads(op)(OwnField)


GlobalsOf: Final = own_field("GLOBALS", types.FunctionType, "__globals__")
BuiltinsOf: Final = own_field("BUILTINS", types.FunctionType, "__builtins__")
Closure: Final = own_field("CLOSURE", types.FunctionType, "__closure__")
Defaults: Final = own_field("DEFAULTS", types.FunctionType, "__defaults__")
KwDefaults: Final = own_field("KWDEFAULTS", types.FunctionType, "__kwdefaults__")
Code: Final = own_field("CODE", types.FunctionType, "__code__")
MethodFunction: Final = own_field("METHOD_FUNC", types.MethodType, "__func__")
MethodSelf: Final = own_field("METHOD_SELF", types.MethodType, "__self__")


@reads("CELL")
class CellContents(Step):
    """What a cell holds; where the cell has the name of a variable, that is its name, too."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        if type(base) is not types.CellType:
            raise Missing
        try:
            return base.cell_contents
        except ValueError:
            raise Missing from None

    def text(self) -> str:
        cell = self.of
        if isinstance(cell, Local | Fixed | CellAt) and cell.name:
            return cell.text()
        return f"{cell}.cell_contents"


@reads("REFERENT")
class Referent(Step):
    """What a weak reference points to; None when that is dead."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        if weakref.ref not in type(base).__mro__:
            raise Missing
        return weakref.ref.__call__(base)

    def text(self) -> str:
        return f"{self.of}()"


@reads("TYPE")
class TypeOf(Step):
    """The value's type, as type(x) tells it."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        return type(base)

    def text(self) -> str:
        return f"type({self.of})"


@dataclass(slots=True, eq=False)
class NamedStep(Step):
    """A step by an attribute's name."""

    name: str

    def text(self) -> str:
        return f"{self.of}.{self.name}"


@reads("ATTR", "name")
class Attr(NamedStep):
    """An attribute in the instance's own dict."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        found = instance_dict(base)
        if not dict.__contains__(found, self.name):
            raise Missing
        return dict.__getitem__(found, self.name)


@reads("MODULE_ATTR", "name")
class ModuleAttr(Attr):
    """An attribute of a module."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        if types.ModuleType not in type(base).__mro__:
            raise Missing
        return super().read(base, call)


@reads("CLASS_ATTR", "name")
class ClassAttr(NamedStep):
    """An attribute of a class, found along its MRO; of an instance's class: of TypeOf(it)."""

    __slots__ = ()

    def read(self, base: Any, call: Call) -> Any:
        if type not in type(base).__mro__:
            raise Missing
        for value in class_attributes(base, self.name):
            return value
        raise Missing


@reads("SLOT", "descriptor")
@dataclass(slots=True, eq=False)
class Slot(Step):
    """What a __slots__ member holds, by its descriptor."""

    descriptor: types.MemberDescriptorType

    def read(self, base: Any, call: Call) -> Any:
        if self.descriptor.__objclass__ not in type(base).__mro__:
            raise Missing
        try:
            return self.descriptor.__get__(base)
        except AttributeError:
            raise Missing from None

    def text(self) -> str:
        return f"{self.of}.{self.descriptor.__name__}"


@reads("FIELD", "descriptor")
@dataclass(slots=True, eq=False)
class Field(Step):
    """What a field of a C type holds, by its descriptor: the gradient of a tensor.

    Only for getters that answer an object which the base holds, and that run no Python code.
    """

    descriptor: types.GetSetDescriptorType

    def read(self, base: Any, call: Call) -> Any:
        owner = self.descriptor.__objclass__
        if owner not in type(base).__mro__:
            raise Missing
        if self.descriptor.__name__ == "grad" and not owner.__dict__["is_leaf"].__get__(base):
            raise Missing  # torch would warn
        return self.descriptor.__get__(base)

    def text(self) -> str:
        return f"{self.of}.{self.descriptor.__name__}"


@reads("INDEX", "index")
@dataclass(slots=True, eq=False)
class Index(Step):
    """An item of a list, tuple or deque."""

    index: int

    def read(self, base: Any, call: Call) -> Any:
        for kind in (list, tuple, deque):
            if kind in type(base).__mro__:
                size = kind.__len__(base)  # for a negative index, a deque would ask its class
                if not -size <= self.index < size:
                    raise Missing
                return kind.__getitem__(base, self.index % size)
        raise Missing

    def text(self) -> str:
        return f"{self.of}[{self.index}]"


@dataclass(slots=True, eq=False)
class CellAt(Index):
    """A cell in the closure of a function, with the name of the variable that it is for."""

    name: str

    def text(self) -> str:
        function = self.of.base
        return self.name if type(function) is Function else f"{self.name} of {function}"


@reads("KEY", "key")
@dataclass(slots=True, eq=False)
class Key(Step):
    """An item of a dict."""

    key: Any

    def read(self, base: Any, call: Call) -> Any:
        if dict not in type(base).__mro__ or not dict.__contains__(base, self.key):
            raise Missing
        return dict.__getitem__(base, self.key)

    def text(self) -> str:
        return item_text(self.of, self.key) or f"{self.of}[{show(self.key)}]"


MODULE_DICTS: Final = ("_modules", "_parameters", "_buffers")
NAMESPACE: Final = "globals of "  # how the name of a Fixed namespace begins


def item_text(of: Source, key: Any) -> str | None:
    """As a program would write it: what an nn.Module holds as its attribute, globals by name."""
    if type(key) is not str:
        return None
    if type(of) is Attr and of.name in MODULE_DICTS:
        return f"{of.of}[{key}]" if key.isdecimal() else f"{of.of}.{key}"
    if type(of) is GlobalsOf:
        return f"global {key}" if type(of.of) is Function else f"global {key} of {of.of}"
    if type(of) is Fixed and of.name.startswith(NAMESPACE):
        return f"{of.name.removeprefix(NAMESPACE)}.{key}"
    return None


@reads("KEY_AT", "index")
@dataclass(slots=True, eq=False)
class DictKeyAt(Step):
    """The key at a position of a dict (not of an OrderedDict, which keeps an order of its own)."""

    index: int

    def read(self, base: Any, call: Call) -> Any:
        if dict not in type(base).__mro__ or is_ordered(base):
            raise Missing
        keys = list(dict.__iter__(base))
        if self.index >= len(keys):
            raise Missing
        return keys[self.index]

    def text(self) -> str:
        return f"list({self.of})[{self.index}]"


@reads("HELD", "index")
@dataclass(slots=True, eq=False)
class Held(Step):
    """What a C object holds and tells nobody but the garbage collector, by its number there.

    Which number something has is a matter of the object's type and state: a guard on both goes
    with it.
    """

    index: int

    def read(self, base: Any, call: Call) -> Any:
        held = gc.get_referents(base)
        if self.index >= len(held):
            raise Missing
        return held[self.index]

    def text(self) -> str:
        return f"held {self.index} of {self.of}"


@reads("AHEAD", "index")
@dataclass(slots=True, eq=False)
class AheadOf(Step):
    """What an iterator of a list or tuple will give when it has given `index` others."""

    index: int

    def read(self, base: Any, call: Call) -> Any:
        if type(base) not in _SEQUENCE_ITERATORS:
            raise Missing
        _, (items,), *at = base.__reduce__()
        kind = tuple if tuple in type(items).__mro__ else list
        size = kind.__len__(items)
        if not at or not 0 <= at[0] < size:
            raise Missing
        place = at[0] + (-self.index if type(base) is _SEQUENCE_ITERATORS[0] else self.index)
        if not 0 <= place < size:
            raise Missing
        return kind.__getitem__(items, place)

    def text(self) -> str:
        return f"item {self.index} of {self.of}"


_SEQUENCE_ITERATORS: Final[tuple[type, ...]] = (type(reversed([])), type(iter([])), type(iter(())))

# -- compositions --

FUNCTION: Final = Function()
GLOBALS: Final = GlobalsOf(FUNCTION)
BUILTINS: Final = BuiltinsOf(FUNCTION)
CLOSURE: Final = Closure(FUNCTION)


def Global(name: str) -> Key:  # noqa: N802 - reads as a source
    """A global of the function being called."""
    return Key(GLOBALS, name)


def Builtin(name: str) -> Key:  # noqa: N802 - reads as a source
    """A builtin of the function being called; that no global hides it is another guard."""
    return Key(BUILTINS, name)


def Cell(index: int) -> CellContents:  # noqa: N802 - reads as a source
    """What a free variable of the function being called holds."""
    return CellContents(Index(CLOSURE, index))


def Item(of: Source, key: Any) -> Index | Key:  # noqa: N802 - reads as a source
    """An item: by index for an int, else by key. For an int key of a dict use Key."""
    return Index(of, key) if type(key) is int else Key(of, key)
