"""Objects that are noted for as long as they live.

A `weakref.WeakSet` can't be looked through while another thread adds to it, and runs Python code
when an object dies: in the middle of a collection, where other threads get their turn.
"""

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Living(Generic[T]):
    """Objects that compare by identity; all methods may be called from several threads."""

    def __init__(self) -> None:
        self._references: set[weakref.ref[T]] = set()

    def add(self, item: T) -> None:
        self._references.add(weakref.ref(item, self._references.discard))

    def __iter__(self) -> Iterator[T]:
        """Those that live at the time of the call, in no order."""
        for reference in self._references.copy():  # in C, in one go
            item = reference()
            if item is not None:
                yield item
