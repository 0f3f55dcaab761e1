# mypy: ignore-errors
"""The kinds of break, each at any depth.

A construct says `BREAK(e)` where it is to be split. At depth 0 that is replaced by the kind's
expression (`EXPRESSIONS`), in the construct's own frame; at depth 1 to 3 by a call of the kind's
function here, which breaks that many frames further inside. Either way a tensor comes in and a
tensor comes out.
"""

import mmap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Final

import stator

# Objects of C types that are not modelled.
ELEMENT: Final = ElementTree.Element("made")
START: Final = bytes(range(3, 40))
NUMBERS: Final = mmap.mmap(-1, len(START))
NUMBERS[:] = START

DEPTHS: Final = (0, 1, 2, 3)

EXPRESSIONS: Final[dict[str, str]] = {
    "graph_break": "kinds.first(E, kinds.stator.graph_break())",
    "disabled": "kinds.disabled(E)",
    "raises": "kinds.raising(E)",
    "branch": "(E + 1 if (E).sum() > 0 else E - 1)",
    "truth": "(E) * ((E).sum() > 0 or 2)",
    "index": "(E) + (5, 6, 7)[int((E).sum() > 0)]",
    "float": "(E) * round(float((E).sum()), 1)",
    "length": "(E) + len('ab' * int((E).abs().sum()))",
    "store": "kinds.first(E, setattr(kinds.ELEMENT, 'text', 'stored'))",
    "call": "(E) + kinds.NUMBERS.read_byte()",
    "instruction": "(E) + kinds.NUMBERS[0]",
}
KINDS: Final = tuple(EXPRESSIONS)


def BREAK(x: Any) -> Any:  # noqa: N802 - a mark that is replaced, not a function
    """Where a construct is split; as it stands it does nothing."""
    return x


def first(x, _):
    return x


def reset() -> None:
    """The objects above as they were."""
    ELEMENT.text = None
    NUMBERS[:] = START
    NUMBERS.seek(0)


def world() -> list[object]:
    """What breaks leave in the objects above."""
    return [ELEMENT.text, NUMBERS[:], NUMBERS.tell()]


@stator.disable
def disabled(x):
    return x + 1


@stator.disable
def raising(x):
    raise ValueError(f"raised for {tuple(x.shape)}")


# ---- depth 1: the break is a statement of its own where it can be one


def graph_break(x):
    y = x * 2
    stator.graph_break()
    return y + 1


def calls_disabled(x):
    y = disabled(x * 2)
    return y + 1


def calls_raising(x):
    y = raising(x * 2)
    return y + 1


def branch(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def truth(x):
    y = x * 2
    return y + (y.sum() > 0 and y.sum() > 1).sum()


def index(x):
    y = x * 2
    names = ["a", "bc"]
    return y + len(names[int(y.sum() > 0)])


def convert(x):
    y = float((x * 2).sum())
    return x * round(y, 2)


def length(x):
    found = [n for n in range(int(x.abs().sum()))]
    return x + len(found)


def store(x):
    y = x * 2
    ELEMENT.text = "stored"
    return y + 1


def call(x):
    y = x * 2
    return y + NUMBERS.read_byte()


def instruction(x):
    y = x * 2
    NUMBERS[1] += 4
    return y + 1


def deeper(function):
    """One frame around, with operations before and behind."""

    def two(x):
        y = x + 1
        z = function(y) * 2
        return z - y

    return two


def deepest(function):
    """Another one: in an expression, with values on the stack."""

    def three(x):
        return x * 2 + function(x) * len([x, x])

    return three


_INNER: Final[dict[str, Callable[..., Any]]] = {
    "graph_break": graph_break,
    "disabled": calls_disabled,
    "raises": calls_raising,
    "branch": branch,
    "truth": truth,
    "index": index,
    "float": convert,
    "length": length,
    "store": store,
    "call": call,
    "instruction": instruction,
}

for _kind, _function in _INNER.items():
    globals()[f"{_kind}_1"] = _function
    globals()[f"{_kind}_2"] = deeper(_function)
    globals()[f"{_kind}_3"] = deepest(deeper(_function))
