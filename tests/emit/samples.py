"""Classes of the program whose values are rebuilt."""

import collections
from typing import Any, NamedTuple


class Point(NamedTuple):
    x: Any
    y: Any


class Plain:
    kind = "class attribute"

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self) -> int:
        return 1


class Slotted:
    __slots__ = ("__private", "__weakref__", "left", "right")
    right: Any

    def __init__(self, left: Any) -> None:
        self.left = left
        self.__private = [left]


class HidingSlot(Slotted):
    __slots__ = ("left",)


class SlottedAndDict(Slotted):
    pass


class Triple(tuple[Any, ...]):
    pass


class Stack(list[Any]):
    pass


class Table(dict[Any, Any]):
    __slots__ = ("note",)


class Ordered(collections.OrderedDict[Any, Any]):
    pass


class Bag(set[Any]):
    pass


class Frozen(frozenset[Any]):
    pass


class Queue(collections.deque[Any]):
    pass


class Count(int):
    pass


class Name(str):
    __slots__ = ()


class FailureError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code
