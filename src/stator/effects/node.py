"""A recipe: how one object made while tracing is made again.

Stage: effects. In: an object. Out: a `Node`, expressions over the objects it refers to. Making
comes before filling, so that cycles can be closed; an object in no cycle is made whole where it can
be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stator import objects
from stator.effects.model import Constant
from stator.effects.steps import SELF, Call, Expr, Raw


@dataclass(eq=False)
class Attributes:
    """The dict an instance keeps its attributes in, and how to get and set it."""

    owner: Any
    value: dict[Any, Any]
    get: Callable[..., Any]
    set: Callable[..., Any] | None
    """None if the type does not allow it."""
    fill: Expr | None
    """Puts the items into the dict of SELF; None if there are none."""


@dataclass(eq=False)
class Node:
    """How to make and fill `value`, which is kept alive: nodes are found by its id."""

    value: Any
    make: Expr
    fills: list[Expr] = field(default_factory=list)
    whole: Expr | None = None
    """Makes it with all that `fills` would add."""
    complete: bool = False
    """Making it reads the contents of its parts: they must have been filled."""
    late: list[Expr] = field(default_factory=list)
    """Fills that read the contents of their operands: they come after all others."""
    attributes: Attributes | None = None


Recipe: TypeAlias = Callable[[Any], Node]


def raws(values: Iterable[Any]) -> tuple[Raw, ...]:
    return tuple(map(Raw, values))


def class_of(value: Any) -> Expr:
    """The type of a value, as an operand: a class made while tracing can't be made again."""
    cls = type(value)
    return Raw(cls) if objects.layout_base(cls) is not cls else Constant(cls)


def new(base: type, value: Any, *args: Expr) -> Call:
    """An instance of the value's type, by its layout base's own `__new__`."""
    return Call(base.__new__, (class_of(value), *args), f"{base.__name__}_new")


def store(descriptor: Any, value: Expr) -> Call:
    """Store into SELF through a descriptor: of a C type's field, or of a slot."""
    return Call(descriptor.__set__, (SELF, value), f"set_{descriptor.__name__}")
