"""Which modules are repeated, so that calls of them are regions (`compile(…, regions="auto")`).

Stage: capture. In: modules that the program calls. Out: whether they have siblings that look the
same: the same classes, all the way down, with parameters and buffers of the same shapes. This only
decides what is tried: it is no fact of the trace, and nothing of it is guarded.

A repeated module may consist of repeated ones. A region inside of a region is captured where it is
called: so it is the outer ones, or the inner ones, whichever leaves less to trace.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import nn

from stator import objects
from stator.torchlib.tensors import DisableTorchFunction

_PLAIN: Final = (torch.Tensor, nn.Parameter)


class Repeated:
    """The repeated modules that one trace has come across."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self._found: set[int] = set()
        self._looks: dict[tuple[Any, ...], int] = {}
        self._look: dict[int, int] = {}
        """By id of a module: a number that those have in common that look the same."""
        self._sizes: dict[int, int] = {}
        """Of those that look so: how many modules there are in one."""
        self._once: dict[int, int] = {}
        """How many in those parts that are repeated in it, each look once."""
        self._rest: dict[int, int] = {}
        """How many outside of such parts."""

    def holds(self, module: Any) -> bool:
        if id(module) not in self._seen:
            self._learn(module)
        return id(module) in self._found

    def _learn(self, root: Any) -> None:
        order = list(self._walk(root))
        children = {id(module): _children(module) for module in order}
        with DisableTorchFunction():
            for module in order:
                self._look[id(module)] = self._number(module, children[id(module)])
        for module in order:
            # A module that is a part of itself, by some way, is no part.
            parts = [part for part in children[id(module)] if self._look[id(part)] in self._sizes]
            self._measure(self._look[id(module)], [self._look[id(part)] for part in parts])
        for module in order:
            looks = Counter(self._look[id(part)] for part in children[id(module)])
            for part in children[id(module)]:
                look = self._look[id(part)]
                # A layer without parts is one operator or two: a graph of its own costs more.
                if looks[look] > 1 and _children(part) and self._is_outer(look, looks[look]):
                    self._found.add(id(part))

    def _measure(self, look: int, inside: list[int]) -> None:
        """How much there is to trace in one that looks so: all of it, and with parts as regions."""
        counts = Counter(inside)
        self._sizes[look] = 1 + sum(self._sizes[each] for each in inside)
        self._once[look] = sum(self._sizes[each] for each in counts if counts[each] > 1)
        self._rest[look] = self._sizes[look] - sum(
            self._sizes[each] * count for each, count in counts.items() if count > 1
        )

    def _is_outer(self, look: int, count: int) -> bool:
        """Whether less is traced if it is the region, and not the parts of it that are repeated."""
        return self._sizes[look] <= count * self._rest[look] + self._once[look]

    def _walk(self, root: Any) -> Iterator[Any]:
        """Modules that are new, each once, behind its parts."""
        waiting = [(root, False)]
        while waiting:
            module, ended = waiting.pop()
            if ended:
                yield module
            elif id(module) not in self._seen:
                self._seen[id(module)] = module
                waiting.append((module, True))
                waiting += ((each, False) for each in _children(module))

    def _number(self, module: Any, children: list[Any]) -> int:
        own = objects.instance_dict(module) or {}
        parts = tuple(self._look.get(id(each), -1) for each in children)
        held = (_shapes(dict.get(own, name)) for name in ("_parameters", "_buffers"))
        return self._looks.setdefault((type(module), parts, *held), len(self._looks))


def _shapes(held: Any) -> tuple[Any, ...]:
    if not objects.is_subtype(type(held), dict):
        return ()
    return tuple(
        (name, tuple(each.shape), each.dtype) if type(each) in _PLAIN else (name, type(each))
        for name, each in dict.items(held)
    )


def _children(module: Any) -> list[Any]:
    own = objects.instance_dict(module) or {}
    held: Any = dict.get(own, "_modules")
    if not objects.is_subtype(type(held), dict):
        return []
    values: list[Any] = list(dict.values(held))
    return [each for each in values if objects.is_subtype(type(each), nn.Module)]
