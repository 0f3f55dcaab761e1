"""Texts that mention tensors, and tensors as they looked at one moment of the program.

Stage: effects. In: what the tracer wrote down when the program made a text out of a tensor, whose
values are known at run time only. Out: recipes, which make the text from the tensor of that moment.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from stator.effects.model import Constant
from stator.effects.node import Node
from stator.effects.steps import Call, Expr, Helper, Raw, Tuple
from stator.guards import Source


class How(Enum):
    """How a value becomes text."""

    STR = "str"
    REPR = "repr"
    ASCII = "ascii"
    FORMAT = "format"
    """`format(value, spec)`"""
    PERCENT = "percent"
    """`spec % (value,)`"""
    HEX = "hex"
    """`float.hex(value)`"""


@dataclass(eq=False, repr=False)
class Mention:
    """A tensor or a symbolic number at the moment when the program showed it."""

    value: Any
    looks: tuple[str | None, bool, bool] | None
    """What is not in its values: the name of its grad_fn, requires_grad, whether a parameter.

    None if what stands for it looks right by itself.
    """
    after: Any
    """The last node of the graph at that moment."""
    region: bool
    """It is inside of a region of its own: nothing gets out of there."""
    place: Any = None
    """Of a tensor: its node at that moment, its memory, sizes and strides."""
    settled: Any = None
    """What stands for it at the end of the trace."""


@dataclass(frozen=True, eq=False, repr=False)
class Given:
    """A string that existed before the call, and is not looked at."""

    source: Source


@dataclass(frozen=True, eq=False, repr=False)
class Piece:
    """A part of a text that is not known while tracing."""

    value: Mention | Text | Given
    how: How
    spec: str = ""


Part: TypeAlias = str | Piece


@dataclass(eq=False, repr=False)
class Text:
    """A string of which a part is not known. To the traced program it is a `str`.

    C code that makes texts out of texts gets `mark` in its place, a string of our own (see
    `capture.text`). Nothing else may look at it.
    """

    parts: tuple[Part, ...]
    places: Any = ()
    """Where it was made."""
    mark: str = field(default="")

    def __str__(self) -> str:
        return f"{self.mark[:-1]}s{self.mark[-1:]}"

    def __repr__(self) -> str:
        return f"{self.mark[:-1]}r{self.mark[-1:]}"


def given_parts(text: Text) -> list[str]:
    """The sources of those of its parts that existed before the call, as texts."""
    found = []
    for part in text.parts:
        if isinstance(part, Piece) and isinstance(part.value, Given):
            found.append(str(part.value.source))
        elif isinstance(part, Piece) and isinstance(part.value, Text):
            found += given_parts(part.value)
    return found


_JOIN: Final = "".join
_FUNCTIONS: Final[dict[How, Any]] = {
    How.STR: str,
    How.REPR: repr,
    How.ASCII: ascii,
    How.FORMAT: builtins.format,
    How.PERCENT: str.__mod__,
    How.HEX: float.hex,
}


def text_node(text: Text) -> Node:
    """The text, put together from its parts."""
    parts = tuple(map(_part, text.parts))
    if len(parts) == 1 and not isinstance(parts[0], Constant):
        return Node(text, parts[0])
    return Node(text, Call(_JOIN, (Tuple(parts),), "join"))


def _part(part: Part) -> Expr:
    if isinstance(part, str):
        return Constant(part)
    function, name, value = _FUNCTIONS[part.how], part.how.value, Raw(part.value)
    match part.how:
        case How.FORMAT:
            return Call(function, (value, Constant(part.spec)), name)
        case How.PERCENT:
            return Call(function, (Constant(part.spec), Tuple((value,))), name)
        case _:
            return Call(function, (value,), name)


def mention_node(mention: Mention) -> Node:
    """The tensor with the values and the looks of that moment."""
    assert mention.looks is not None, "what looks as it is stands for itself"
    looks = (Constant(each) for each in mention.looks)
    return Node(mention, Call(Helper.SHOWN, (Raw(mention.settled), *looks), "shown"))
