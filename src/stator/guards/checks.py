"""Checks: what must be true of the value at a source.

Stage: guards. Each check knows the native operation that tests it (`op`, and its `argument`, in
which sources are numbered by the tree's builder), its slow Python meaning (`holds`), and how to
print what it expects.

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
from typing import Any, ClassVar, Final

from stator._native import _core

from .expressions import Binary, Constant, Expr, Leaf, Unary, holds
from .layout import class_attributes, instance_dict, is_ordered, length_of, typed_equal
from .sources import Source
from .text import show

EXPRS: Final = {name: number for number, name in enumerate(_core.GUARD_EXPRS)}

Reader = Callable[[Source], Any]
Numbering = Callable[[Source], int]


@dataclass(frozen=True, eq=False)
class Check:
    """Something that must be true; `op` names the native operation, a lower `cost` runs first."""

    op: ClassVar[str]
    cost: ClassVar[int] = 1

    def argument(self, number: Numbering) -> Any:
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


# -- on the value itself --


@dataclass(frozen=True, eq=False)
class TypeIs(Check):
    """type(value) is cls."""

    op: ClassVar[str] = "TYPE_IS"
    cost: ClassVar[int] = 0
    cls: type

    def argument(self, number: Numbering) -> type:
        return self.cls

    def holds(self, value: Any, read: Reader) -> bool:
        return type(value) is self.cls

    def actual(self, value: Any) -> str:
        return f"type {show(type(value))}"

    def text(self) -> str:
        return f"type {show(self.cls)}"


@dataclass(frozen=True, eq=False)
class SubclassOf(Check):
    """cls is in the MRO of type(value); no __instancecheck__, no __subclasscheck__."""

    op: ClassVar[str] = "SUBTYPE"
    cls: type

    def argument(self, number: Numbering) -> type:
        return self.cls

    def holds(self, value: Any, read: Reader) -> bool:
        return self.cls in type(value).__mro__

    def text(self) -> str:
        return f"an instance of {show(self.cls)}"


@dataclass(frozen=True, eq=False)
class Is(Check):
    """The same object, which the guard keeps alive."""

    op: ClassVar[str] = "IS"
    cost: ClassVar[int] = 0
    object: Any

    def argument(self, number: Numbering) -> Any:
        return self.object

    def holds(self, value: Any, read: Reader) -> bool:
        return value is self.object

    def text(self) -> str:
        return f"is {show(self.object)}"


@dataclass(frozen=True, eq=False)
class IsNot(Is):
    """Another object."""

    op: ClassVar[str] = "IS_NOT"

    def holds(self, value: Any, read: Reader) -> bool:
        return value is not self.object

    def text(self) -> str:
        return f"is not {show(self.object)}"


@dataclass(frozen=True, eq=False, init=False)
class IsWeak(Check):
    """The same object, as long as others keep it alive; fails for good when it is dead."""

    op: ClassVar[str] = "IS_WEAK"
    cost: ClassVar[int] = 0
    reference: weakref.ref[Any]
    shown: str

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "reference", weakref.ref(target))
        object.__setattr__(self, "shown", show(target))

    def argument(self, number: Numbering) -> Any:
        target = self.reference()
        if target is None:
            raise ReferenceError(f"{self.shown} died before its guard was compiled")
        return target

    def holds(self, value: Any, read: Reader) -> bool:
        return value is not None and value is self.reference()

    def text(self) -> str:
        return f"is {self.shown}"


@dataclass(frozen=True, eq=False)
class Equal(Check):
    """Equal to a constant in type and value, throughout."""

    op: ClassVar[str] = "EQUAL"
    constant: Any

    def argument(self, number: Numbering) -> Any:
        return self.constant

    def holds(self, value: Any, read: Reader) -> bool:
        return typed_equal(self.constant, value)

    def text(self) -> str:
        return show(self.constant)


# -- on what it contains --


@dataclass(frozen=True, eq=False)
class Length(Check):
    """The layout base's len()."""

    op: ClassVar[str] = "LENGTH"
    length: int

    def argument(self, number: Numbering) -> int:
        return self.length

    def holds(self, value: Any, read: Reader) -> bool:
        return length_of(value) == self.length

    def actual(self, value: Any) -> str:
        return f"length {length_of(value)}"

    def text(self) -> str:
        return f"length {self.length}"


@dataclass(frozen=True, eq=False)
class Keys(Check):
    """Exactly these keys, in this order: the same objects, or equal constants."""

    op: ClassVar[str] = "KEYS"
    cost: ClassVar[int] = 3
    keys: tuple[Any, ...]

    def argument(self, number: Numbering) -> tuple[Any, ...]:
        return self.keys

    def holds(self, value: Any, read: Reader) -> bool:
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


@dataclass(frozen=True, eq=False)
class KeySet(Check):
    """Exactly these keys of a dict, or elements of a set, in any order."""

    op: ClassVar[str] = "KEY_SET"
    cost: ClassVar[int] = 3
    keys: tuple[Any, ...]

    def argument(self, number: Numbering) -> tuple[Any, ...]:
        return self.keys

    def holds(self, value: Any, read: Reader) -> bool:
        for kind in (dict, set, frozenset):
            if kind in type(value).__mro__:
                found = list(kind.__iter__(value))
                return len(found) == len(self.keys) and all(
                    any(typed_equal(key, other) for other in found) for key in self.keys
                )
        return False

    def actual(self, value: Any) -> str:
        return shown_keys(value)

    def text(self) -> str:
        return f"keys {show(self.keys)}, in any order"


@dataclass(frozen=True, eq=False)
class HasKey(Check):
    """key in value, by the layout base's own lookup."""

    op: ClassVar[str] = "HAS_KEY"
    cost: ClassVar[int] = 2
    key: Any

    def argument(self, number: Numbering) -> Any:
        return self.key

    def holds(self, value: Any, read: Reader) -> bool:
        return contains(value, self.key) is True

    def text(self) -> str:
        return f"has the key {show(self.key)}"


@dataclass(frozen=True, eq=False)
class NoKey(HasKey):
    """key not in value."""

    op: ClassVar[str] = "NO_KEY"

    def holds(self, value: Any, read: Reader) -> bool:
        return contains(value, self.key) is False

    def text(self) -> str:
        return f"lacks the key {show(self.key)}"


def contains(value: Any, key: Any) -> bool | None:
    for kind in (dict, set, frozenset):
        if kind in type(value).__mro__:
            return kind.__contains__(value, key)
    return None


@dataclass(frozen=True, eq=False)
class NoAttr(Check):
    """The instance's own dict lacks the name."""

    op: ClassVar[str] = "NO_ATTR"
    cost: ClassVar[int] = 2
    name: str

    def argument(self, number: Numbering) -> str:
        return self.name

    def holds(self, value: Any, read: Reader) -> bool:
        return not dict.__contains__(instance_dict(value), self.name)

    def text(self) -> str:
        return f"lacks the attribute {self.name}"


@dataclass(frozen=True, eq=False)
class NoClassAttr(NoAttr):
    """The class at the source and its bases lack the name."""

    op: ClassVar[str] = "NO_CLASS_ATTR"

    def holds(self, value: Any, read: Reader) -> bool:
        if type not in type(value).__mro__:
            return False
        return not any(True for _ in class_attributes(value, self.name))


# -- between sources --


@dataclass(frozen=True, eq=False)
class Aliased(Check):
    """The same object as at other sources."""

    op: ClassVar[str] = "ALIASED"
    cost: ClassVar[int] = 4
    others: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.others

    def argument(self, number: Numbering) -> tuple[int, ...]:
        return tuple(map(number, self.others))

    def holds(self, value: Any, read: Reader) -> bool:
        return all(read(other) is value for other in self.others)

    def text(self) -> str:
        return f"the same object as {', '.join(map(str, self.others))}"


@dataclass(frozen=True, eq=False)
class NotAliased(Aliased):
    """This and the other sources hold different objects, all of them."""

    op: ClassVar[str] = "DISTINCT"

    def holds(self, value: Any, read: Reader) -> bool:
        found = [value, *map(read, self.others)]
        return len(set(map(id, found))) == len(found)

    def text(self) -> str:
        return f"different objects here and at {', '.join(map(str, self.others))}"


@dataclass(frozen=True, eq=False)
class Holds(Check):
    """A relation between integers; the guard has no source of its own."""

    op: ClassVar[str] = "RELATION"
    cost: ClassVar[int] = 5
    expr: Expr

    def sources(self) -> tuple[Source, ...]:
        return tuple(leaf.source for leaf in self.expr.postfix() if isinstance(leaf, Leaf))

    def argument(
        self, number: Numbering
    ) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]:
        nodes: list[int] = []
        code = []
        for step in self.expr.postfix():
            match step:
                case Constant(number=constant):
                    code.append((EXPRS["CONST"], 0, constant))
                case Leaf():
                    node = number(step.source)
                    if node not in nodes:
                        nodes.append(node)
                    code.append((EXPRS[step.op], nodes.index(node), step.dim))
                case Unary() | Binary():
                    code.append((EXPRS[step.op], 0, 0))
        return tuple(nodes), tuple(code)

    def holds(self, value: Any, read: Reader) -> bool:
        return holds(self.expr, read)

    def text(self) -> str:
        return str(self.expr)


# -- the last resort --


@dataclass(frozen=True, eq=False)
class Callback(Check):
    """What a Python function says of the value; counted, because it runs Python code."""

    op: ClassVar[str] = "CALLBACK"
    cost: ClassVar[int] = 100
    function: Callable[[Any], object]
    description: str = ""

    def argument(self, number: Numbering) -> Callable[[Any], object]:
        return self.function

    def holds(self, value: Any, read: Reader) -> bool:
        return bool(self.function(value))

    def text(self) -> str:
        return self.description or f"accepted by {show(self.function)}"
