"""What objects lead to, as it was before some code ran: whether it has changed that; undoing it.

In: objects, such as the attributes of a wrapper that are no tensors. Out: a `Reached`. It looks
into plain containers and instances, as deep as these go; not into classes, modules, functions,
tensors and objects of torch's own.
"""

import collections
import operator
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from stator import objects
from stator.objects.types import module_of, of_torch

_MOST: Final = 10_000
_CONTAINERS: Final = objects.TypeSet(dict, collections.OrderedDict, list, set, collections.deque)
_FIXED: Final = objects.TypeSet(tuple, frozenset, torch.Size)
_ENDS: Final = (type, torch.Tensor, types.ModuleType)
_VALUES: Final = objects.TypeSet(int, float, complex, str, bytes)


class Reached:
    """What can be changed among the objects, and what was in it."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.objects: list[Any] = []  # that can be changed
        self.values: list[Any] = []  # all of them
        self._before: list[tuple[Any, list[Any]]] = []
        waiting, seen = list(values), set[int]()
        while waiting and len(seen) < _MOST:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            self.values.append(value)
            for held in _states(value):
                if not self.objects or self.objects[-1] is not value:
                    self.objects.append(value)
                contents = _contents(held)
                self._before.append((held, contents))
                waiting += contents
            if _FIXED.holds(objects.layout_base(type(value))):
                waiting += tuple(value) if type(value) is frozenset else tuple.__iter__(value)

    def undo(self) -> bool:
        """Whether anything has changed; all is as it was, then."""
        changed = [each for each in self._before if not _are_same(_contents(each[0]), each[1])]
        for held, before in changed:
            _fill(held, before)
        return bool(changed)


def _states(value: Any) -> Iterator[Any]:
    """Where an object keeps what can be changed of it."""
    cls = type(value)
    base = objects.layout_base(cls)
    if _CONTAINERS.holds(base):
        yield value
    if any(objects.is_subtype(cls, each) for each in _ENDS) or of_torch(module_of(cls)):
        return
    if base is object or _CONTAINERS.holds(base):
        own = objects.instance_dict(value)
        if own is not None:
            yield own


def _contents(value: Any) -> list[Any]:
    base: Any = objects.layout_base(type(value))
    if objects.is_subtype(base, dict):
        return [*base.keys(value), *base.values(value)]
    return list(base.__iter__(value))


def _are_same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(
        a is b or (type(a) is type(b) and _VALUES.holds(type(a)) and bool(operator.eq(a, b)))
        for a, b in zip(now, before, strict=True)
    )


def _fill(value: Any, before: list[Any]) -> None:
    base: Any = objects.layout_base(type(value))
    base.clear(value)
    if objects.is_subtype(base, dict):
        half = len(before) // 2
        for key, item in zip(before[:half], before[half:], strict=True):
            base.__setitem__(value, key, item)
    elif base is set:
        base.update(value, before)
    else:
        base.extend(value, before)
