"""The language of plans: expressions that make values, and the steps they stand in.

Stage: between the recipes, which write expressions over the trace's own objects (`Raw`, `SELF`),
and the emitter, which reads them with those replaced by references and numbers. It is small on
purpose: displays, and calls of C functions that run no user code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from stator.effects.exits import Entry
from stator.effects.model import Constant, Effect, Fetched, Output
from stator.guards.text import show


class Helper(Enum):
    """A function of the emitter's runtime, where no single C function does it."""

    FILL_ORDERED = "fill_ordered"
    """(OrderedDict, tuple of pairs): put the pairs in."""
    ADVANCE = "advance"
    """(iterator, n): the iterator after n items."""
    DEAD_REFERENCE = "dead_reference"
    """(): a weak reference to nothing."""
    SET_STATE = "set_state"
    """(C `__setstate__`, iterator, state): without the warning that itertools gives since 3.12."""
    UNION = "union"
    """(types): their union, as by `|`."""
    SHOWN = "shown"
    """(tensor, name of a grad_fn, requires_grad, is a parameter): a tensor that is shown so."""
    AS_SUBCLASS = "as_subclass"
    """(whether grad is enabled, tensor, class): what `as_subclass` makes in that mode."""
    SPENT = "spent"
    """(tensor, name of a grad_fn): as if it had been differentiated, which can be done once."""
    SET_TRACEBACK = "set_traceback"
    """(exception, places, traceback): it has passed these places, and others before."""
    LOG = "log"
    """What `emit.reports.log` says; performed, as the next ones are."""
    WARN = "warn"
    SHOW_WARNING = "show_warning"


@dataclass(frozen=True, eq=False, repr=False)
class Built:
    """The value of an earlier step."""

    number: int

    def __str__(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True, eq=False, repr=False)
class Raw:
    """An object of the trace: in recipes only, resolved when the plan is made."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class Self:
    """The object that is being filled: in recipes only."""


SELF: Final = Self()


@dataclass(frozen=True, eq=False, repr=False)
class Tuple:
    items: tuple[Expr, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        return f"({inner},)" if len(self.items) == 1 else f"({inner})"


@dataclass(frozen=True, eq=False, repr=False)
class List:
    items: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, eq=False, repr=False)
class Set:
    """At least one item: the empty set has no display."""

    items: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True, eq=False, repr=False)
class Dict:
    pairs: tuple[tuple[Expr, Expr], ...]

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}: {value}' for key, value in self.pairs)}}}"


@dataclass(frozen=True, eq=False, repr=False)
class Call:
    """A call of a C function, or of a helper; `name` is for the reader."""

    function: Callable[..., Any] | Helper
    args: tuple[Expr, ...]
    name: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


Expr: TypeAlias = (
    Fetched | Output | Constant | Built | Raw | Self | Tuple | List | Set | Dict | Call
)


def children(expr: Expr) -> Iterator[Expr]:
    """The expressions directly inside one."""
    match expr:
        case Tuple() | List() | Set():
            yield from expr.items
        case Dict():
            for key, value in expr.pairs:
                yield key
                yield value
        case Call():
            yield from expr.args


def leaves(expr: Expr) -> Iterator[Expr]:
    """What an expression is made from, from left to right."""
    pending = [expr]
    while pending:
        found = pending.pop()
        inner = list(children(found))
        if inner:
            pending += reversed(inner)
        else:
            yield found


def replaced(expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """The expression with each of its leaves replaced."""
    match expr:
        case Tuple():
            return Tuple(tuple(replaced(item, leaf) for item in expr.items))
        case List():
            return List(tuple(replaced(item, leaf) for item in expr.items))
        case Set():
            return Set(tuple(replaced(item, leaf) for item in expr.items))
        case Dict():
            return Dict(tuple((replaced(k, leaf), replaced(v, leaf)) for k, v in expr.pairs))
        case Call():
            args = tuple(replaced(arg, leaf) for arg in expr.args)
            return Call(expr.function, args, expr.name)
        case _:
            return leaf(expr)


@dataclass(frozen=True, eq=False, repr=False)
class Make:
    """Make value `number`, of type `kind`."""

    number: int
    value: Expr
    kind: type

    def __str__(self) -> str:
        return f"v{self.number} = {self.value}"


@dataclass(frozen=True, eq=False, repr=False)
class Fill:
    """Complete a value that had to exist first."""

    value: Expr

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Apply:
    """Write an effect. Its fields that held values of the trace now hold expressions."""

    effect: Effect

    def __str__(self) -> str:
        fields = dict(self.effect.__dict__)
        target = fields.pop("target")
        rest = ", ".join(_field(value) for value in fields.values() if value is not None)
        return f"{type(self.effect).__name__} {target}: {rest}".rstrip(": ")


def _field(value: Any) -> str:
    if type(value) is tuple:
        return f"({', '.join(map(_field, value))})"
    return str(value) if type(value) in _PRINTABLE else show(value)


_PRINTABLE: Final = frozenset({Fetched, Output, Constant, Built, Tuple, List, Set, Dict, Call, str})


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What the residual function does after the graph: builds, then effects, then the result.

    Values that wait for an effect are built among these.
    """

    builds: tuple[Make | Fill, ...]
    effects: tuple[Apply | Make | Fill, ...]
    result: Expr
    raises: bool = False
    """The result is an exception that leaves the function."""
    traceback: tuple[Entry, ...] = ()
    """The lines the exception passed, the outermost first."""
    values: tuple[Expr, ...] = ()
    """What is wanted for going on, if the trace ends in the middle."""

    def __str__(self) -> str:
        last = "raise" if self.raises else "return"
        return "\n".join([*map(str, self.builds), *map(str, self.effects), f"{last} {self.result}"])
