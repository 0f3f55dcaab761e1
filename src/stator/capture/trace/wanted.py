"""What a trace is to leave open.

Stage: between driver and capture. In: what the driver has learned from calls before, and the
settings. Out: `Wanted`, by which the trace decides which sizes, strides and numbers are symbols.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

LARGEST: Final = 1 << 31
"""Ints beyond are never symbolic: products of two others still fit into 64 bits, in which compiled
code and guards compute."""

NEXT_ITEM: Final = "next item"
"""How the source of what an iterator gives next is called, in a trace that begins in a loop: an
int there is a counter, which is another one each time. No variable has such a name."""
MOST_OPEN: Final = 1024
"""Of ints, and of floats, in one trace: what torch does with a sum grows faster than the sum."""


@dataclass(frozen=True)
class Wanted:
    """What a trace is to leave open, by the text of its source."""

    ints: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    """Strings, of which the program knows nothing but that they are there."""
    hooks: frozenset[str] = frozenset()
    """Dicts with hooks of modules, of whose numbers the program knows nothing."""
    sizes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    strides: Mapping[str, frozenset[int]] = field(default_factory=dict)
    every: bool = False
    """All that is an argument."""
    never: bool = False
    """Nothing, whatever a tensor is marked with."""
    named: Callable[[str], bool] | None = None
    """Whether a setting names a source."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """How a size, stride or int has changed, in words."""

    def __bool__(self) -> bool:
        """Whether anything may be left open, but for what is marked."""
        return not self.never and bool(
            self.ints or self.floats or self.sizes or self.strides or self.every or self.named
        )

    def opens_float(self, text: str) -> bool:
        """Whether a float is left open: never from the start, for much is decided by floats."""
        return not self.never and text in self.floats
