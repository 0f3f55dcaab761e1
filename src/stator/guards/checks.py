"""Checks: what must be true of the value at a source.

Stage: guards. Each check knows the native operation that tests it (`op`, and its `argument`), its
slow Python meaning (`holds`), and how to print what it expects.

References: identity, type and key checks hold their objects strongly, except `IsWeak`, which
holds a weak reference and fails once the object is dead. Use `IsWeak` for what belongs to the
caller (instances, tensors), `Is` for what lives as long as the program (modules, classes,
functions, constants).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any, ClassVar, Final, TypeVar

from stator._native import _core
from stator.objects.types import qualname_of

from .expressions import Binary, Constant, Expr, Leaf, Real, Unary, holds
from .fields import rename
from .layout import class_attributes, instance_dict, is_ordered, length_of, typed_equal
from .sources import Source
from .text import show

CHECKS: Final = {name: number for number, name in enumerate(_core.GUARD_CHECKS)}
_HEAP_TYPE: Final = 1 << 9  # of a type's __flags__: made by a class statement
EXPRS: Final = {name: number for number, name in enumerate(_core.GUARD_EXPRS)}

Reader = Callable[[Source], Any]


@dataclass(slots=True, eq=False)
class Check:
    """Something that must be true; `op` is a number, a lower `cost` runs first."""

    op: ClassVar[int]
    cost: ClassVar[int]

    @property
    def argument(self) -> Any:
        """What the native operation needs; sources in it stand for themselves."""
        raise NotImplementedError

    def holds(self, value: Any, read: Reader) -> bool:
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    def actual(self, value: Any) -> str:
        """What to say of a value for which the check fails."""
        return show(value)

    def sources(self) -> tuple[Source, ...]:
        """Sources the check reads besides the guard's own."""
        return ()

    def __str__(self) -> str:
        return self.text()


C = TypeVar("C", bound=type[Check])


def tests(op: str, field: str | None = None, *, cost: int = 1) -> Callable[[C], C]:
    """The native operation of a class of checks, and the field that is its argument."""

    def mark(cls: C) -> C:
        cls.op = CHECKS[op]
        cls.cost = cost
        if field is not None:
            rename(cls, field, "argument")
        return cls

    return mark


# -- on the value itself --


@tests("TYPE_IS", "cls", cost=0)
@dataclass(slots=True, eq=False)
class TypeIs(Check):
    """type(value) is cls."""

    cls: type

    def holds(self, value: Any, read: Reader) -> bool:
        return type(value) is self.cls

    def actual(self, value: Any) -> str:
        return f"type {qualname_of(type(value))}"

    def text(self) -> str:
        return f"type {qualname_of(self.cls)}"


@tests("SUBTYPE", "cls")
@dataclass(slots=True, eq=False)
class SubclassOf(Check):
    """cls is in the MRO of type(value); no __instancecheck__, no __subclasscheck__."""

    cls: type

    def holds(self, value: Any, read: Reader) -> bool:
        return self.cls in type(value).__mro__

    def text(self) -> str:
        return f"an instance of {qualname_of(self.cls)}"

    def actual(self, value: Any) -> str:
        return f"type {qualname_of(type(value))}"


@tests("IS", "object", cost=0)
@dataclass(slots=True, eq=False)
class Is(Check):
    """The same object, which the guard keeps alive."""

    object: Any

    def holds(self, value: Any, read: Reader) -> bool:
        return value is self.object

    def actual(self, value: Any) -> str:
        return other_than(show(self.object), value)

    def text(self) -> str:
        return show(self.object)


@tests("IS_NOT", cost=0)
@dataclass(slots=True, eq=False)
class IsNot(Is):
    """Another object."""

    def holds(self, value: Any, read: Reader) -> bool:
        return value is not self.object

    def text(self) -> str:
        return f"anything but {show(self.object)}"


@tests("IS_WEAK", cost=0)
@dataclass(slots=True, eq=False, init=False)
class IsWeak(Check):
    """The same object, as long as others keep it alive; fails for good when it is dead."""

    reference: weakref.ref[Any]
    shown: str

    def __init__(self, target: Any) -> None:
        self.reference = weakref.ref(target)
        self.shown = show(target)

    @property
    def argument(self) -> Any:
        target = self.reference()
        if target is None:
            raise ReferenceError(f"{self.shown} died before its guard was compiled")
        return target

    def holds(self, value: Any, read: Reader) -> bool:
        return value is not None and value is self.reference()

    def actual(self, value: Any) -> str:
        return other_than(self.shown, value)

    def text(self) -> str:
        return self.shown


def other_than(expected: str, value: Any) -> str:
    """Functions made by one `def` read the same."""
    text = show(value)
    return f"another {text}" if text == expected else text


@tests("EQUAL", "constant")
@dataclass(slots=True, eq=False)
class Equal(Check):
    """Equal to a constant in type and value, throughout.

    Constants are None, Ellipsis, NotImplemented, bool, int, float, complex, str, bytes, range;
    torch's dtype, device, layout, memory_format; and tuples, torch.Size, frozensets and slices of
    constants. Of exactly these types: an instance of a subclass is not one.
    """

    constant: Any

    def holds(self, value: Any, read: Reader) -> bool:
        return typed_equal(self.constant, value)

    def text(self) -> str:
        return show(self.constant)


# -- on what it contains --


@tests("LENGTH", "length")
@dataclass(slots=True, eq=False)
class Length(Check):
    """The layout base's len()."""

    length: int

    def holds(self, value: Any, read: Reader) -> bool:
        return length_of(value) == self.length

    def actual(self, value: Any) -> str:
        return f"length {length_of(value)}"

    def text(self) -> str:
        return f"length {self.length}"


@tests("KEYS", "keys", cost=3)
@dataclass(slots=True, eq=False)
class Keys(Check):
    """Exactly these keys of a dict, or elements of a set, in this order.

    They are the same objects, or equal constants.
    """

    keys: tuple[Any, ...]

    def holds(self, value: Any, read: Reader) -> bool:
        for kind in (set, frozenset):
            if kind in type(value).__mro__:
                found = tuple(kind.__iter__(value))
                return len(found) == len(self.keys) and all(map(typed_equal, self.keys, found))
        if dict not in type(value).__mro__ or dict.__len__(value) != len(self.keys):
            return False
        base: type[dict[Any, Any]] = OrderedDict if is_ordered(value) else dict
        return all(map(typed_equal, self.keys, base.__iter__(value)))

    def actual(self, value: Any) -> str:
        return shown_keys(value)

    def text(self) -> str:
        return f"keys {show(self.keys)}, in this order"


def shown_keys(value: Any) -> str:
    for kind in (OrderedDict, dict, set, frozenset):
        if kind in type(value).__mro__:
            return f"keys {show(tuple(kind.__iter__(value)))}"
    return show(value)


@tests("HAS_KEY", "key", cost=2)
@dataclass(slots=True, eq=False)
class HasKey(Check):
    """key in value, by the layout base's own lookup."""

    key: Any

    def holds(self, value: Any, read: Reader) -> bool:
        return contains(value, self.key) is True

    def actual(self, value: Any) -> str:
        return shown_keys(value)

    def text(self) -> str:
        return f"a key {show(self.key)}"


@tests("NO_KEY", cost=2)
@dataclass(slots=True, eq=False)
class NoKey(HasKey):
    """key not in value."""

    def holds(self, value: Any, read: Reader) -> bool:
        return contains(value, self.key) is False

    def text(self) -> str:
        return f"no key {show(self.key)}"


def contains(value: Any, key: Any) -> bool | None:
    for kind in (dict, set, frozenset):
        if kind in type(value).__mro__:
            return kind.__contains__(value, key)
    return None


@tests("NO_ATTR", "name", cost=2)
@dataclass(slots=True, eq=False)
class NoAttr(Check):
    """The instance's own dict lacks the name."""

    name: str

    def holds(self, value: Any, read: Reader) -> bool:
        return not dict.__contains__(instance_dict(value), self.name)

    def actual(self, value: Any) -> str:
        return "one"

    def text(self) -> str:
        return f"no attribute {self.name}"


@tests("NO_CLASS_ATTR", cost=2)
@dataclass(slots=True, eq=False)
class NoClassAttr(NoAttr):
    """The class at the source and its bases lack the name."""

    def holds(self, value: Any, read: Reader) -> bool:
        if type not in type(value).__mro__:
            return False
        return not any(True for _ in class_attributes(value, self.name))


@tests("ATTR_KEYS", "names", cost=3)
@dataclass(slots=True, eq=False)
class AttrKeys(Check):
    """The instance's own dict has exactly these names, in this order."""

    names: tuple[str, ...]

    def holds(self, value: Any, read: Reader) -> bool:
        found = tuple(dict.__iter__(instance_dict(value)))
        return len(found) == len(self.names) and all(map(typed_equal, self.names, found))

    def actual(self, value: Any) -> str:
        return f"attributes {show(tuple(dict.__iter__(instance_dict(value))))}"

    def text(self) -> str:
        return f"attributes {show(self.names)}, in this order"


@tests("SLOT_EMPTY", "descriptor")
@dataclass(slots=True, eq=False)
class SlotEmpty(Check):
    """The instance has this __slots__ member, and it holds nothing."""

    descriptor: MemberDescriptorType

    def holds(self, value: Any, read: Reader) -> bool:
        owner = self.descriptor.__objclass__
        if owner not in type(value).__mro__:
            return False
        try:
            found = self.descriptor.__get__(value)
        except AttributeError:
            return True
        # C types may say None for nothing; a slot that a class has made holds it.
        return found is None and not owner.__flags__ & _HEAP_TYPE

    def actual(self, value: Any) -> str:
        return "one"

    def text(self) -> str:
        return f"no attribute {self.descriptor.__name__}"


# -- between sources --


@tests("ALIASED", "others", cost=4)
@dataclass(slots=True, eq=False)
class Aliased(Check):
    """The same object as at other sources."""

    others: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.others

    def holds(self, value: Any, read: Reader) -> bool:
        return all(read(other) is value for other in self.others)

    def text(self) -> str:
        return f"the same object as {', '.join(map(str, self.others))}"


@tests("DISTINCT", cost=4)
@dataclass(slots=True, eq=False)
class NotAliased(Aliased):
    """This and the other sources hold different objects, all of them."""

    def holds(self, value: Any, read: Reader) -> bool:
        found = [value, *map(read, self.others)]
        return len(set(map(id, found))) == len(found)

    def text(self) -> str:
        return f"different objects here and at {', '.join(map(str, self.others))}"


@tests("RELATION", cost=5)
@dataclass(slots=True, eq=False)
class Holds(Check):
    """A relation between integers; the guard has no source of its own."""

    expr: Expr

    def sources(self) -> tuple[Source, ...]:
        return tuple(leaf.source for leaf in self.expr.postfix() if isinstance(leaf, Leaf))

    @property
    def argument(self) -> tuple[tuple[Source, ...], tuple[tuple[int, int, int], ...]]:
        """What it reads, and postfix code: (operation, which of what it reads, dimension)."""
        places: dict[Source, int] = {}
        code = []
        for step in self.expr.postfix():
            match step:
                case Constant(number=constant):
                    code.append((EXPRS["CONST"], 0, constant))
                case Real():
                    code.append((EXPRS["FLOAT"], 0, step.bits))
                case Leaf():
                    place = places.setdefault(step.source, len(places))
                    code.append((EXPRS[step.op], place, step.dim))
                case Unary() | Binary():
                    code.append((EXPRS[step.op], 0, 0))
        return tuple(places), tuple(code)

    def holds(self, value: Any, read: Reader) -> bool:
        return holds(self.expr, read)

    def text(self) -> str:
        return str(self.expr)


@dataclass(slots=True, eq=False)
class Relation(Holds):
    """The same, with the line of the program that is the reason for it."""

    why: str = ""

    def text(self) -> str:
        return f"{self.expr}, because of {self.why}" if self.why else str(self.expr)


# -- the last resort --


@tests("SAME", cost=3)
@dataclass(slots=True, eq=False)
class Same(Check):
    """The same object, natively; otherwise one of its type that is equal to it, as it says.

    For objects that stand for a value and do not change.
    """

    object: Any
    equal: Callable[[Any, Any], bool]

    @property
    def argument(self) -> tuple[Any, Callable[[Any], bool]]:
        return self.object, self._is_equal

    def _is_equal(self, value: Any) -> bool:
        return self.equal(value, self.object)

    def holds(self, value: Any, read: Reader) -> bool:
        return value is self.object or self._is_equal(value)

    def text(self) -> str:
        return f"equal to {show(self.object)}"


@tests("CALLBACK", "function", cost=100)
@dataclass(slots=True, eq=False)
class Callback(Check):
    """What a Python function says of the value; counted, because it runs Python code."""

    function: Callable[[Any], object]
    description: str = ""

    def holds(self, value: Any, read: Reader) -> bool:
        return bool(self.function(value))

    def text(self) -> str:
        return self.description or f"accepted by {show(self.function)}"
