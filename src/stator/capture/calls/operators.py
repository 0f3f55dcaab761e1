"""Operators by the numbers that instructions use: as functions for graphs, as special methods."""

import operator
from typing import Any, Final

from stator.objects import TypeSet

NUMBERS: Final = TypeSet(int, float, bool, str, bytes, type(None), complex)


def specials(words: str) -> tuple[str, ...]:
    """The names of special methods: `__add__` for `add`."""
    return tuple(f"__{word}__" for word in words.split())


def _words(text: str) -> list[str]:
    return text.split()


# In the order of CPython's NB_* constants: plain, then in place.
ARITHMETIC: Final = _words("add and floordiv lshift matmul mul mod or pow rshift sub truediv xor")
INPLACE: Final = len(ARITHMETIC)  # the first in-place one
_NAMES: Final = [*ARITHMETIC, *(f"i{name}" for name in ARITHMETIC)]
BINARY: Final[list[Any]] = [getattr(operator, f"__{name}__") for name in _NAMES]

# What an in-place operator does to what can't be changed.
NOT_IN_PLACE: Final[dict[Any, Any]] = {
    getattr(operator, f"__i{name}__"): getattr(operator, f"__{name}__") for name in ARITHMETIC
}


def _special(name: str) -> tuple[str, ...]:
    plain = name[1:] if name[0] == "i" and name != "invert" else name
    return tuple(f"__{n}__" for n in dict.fromkeys((name, plain, f"r{plain}")))


BINARY_NAMES: Final = [_special(name) for name in _NAMES]

COMPARE: Final[list[Any]] = [
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
COMPARE_NAMES: Final = ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__")
UNARY: Final[dict[str, Any]] = {
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__invert__": operator.invert,
}
