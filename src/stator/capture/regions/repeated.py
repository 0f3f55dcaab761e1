"""Which modules are repeated, so that calls of them are regions (`compile(…, regions="auto")`).

Stage: capture. In: modules that the program calls. Out: whether there are others that look the
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

    def holds(self, module: Any) -> bool:
        if id(module) not in self._seen:
            self._learn(module)
        return id(module) in self._found

    def _learn(self, root: Any) -> None:
        order = list(self._walk(root))
        children = {id(module): _children(module) for module in order}
        with DisableTorchFunction():
            for module in reversed(order):  # parts come before what they are part of
                self._look[id(module)] = self._number(module, children[id(module)])
        counts = Counter(self._look[id(module)] for module in order)
        sizes: dict[int, int] = {}
        costs: dict[int, int] = {}  # of tracing all modules that look so, parts being regions
        for module in reversed(order):
            look, parts = self._look[id(module)], children[id(module)]
            if look not in sizes:
                inside = [self._look[id(part)] for part in parts if id(part) in self._look]
                sizes[look] = 1 + sum(sizes.get(each, 1) for each in inside)
                costs[look] = self._cost(look, inside, counts, sizes, costs)
        for module in order:
            look = self._look[id(module)]
            # A layer without parts is one operator or two: a graph of its own would cost more.
            if counts[look] > 1 and children[id(module)] and costs[look] >= sizes[look]:
                self._found.add(id(module))

    @staticmethod
    def _cost(
        look: int,
        inside: list[int],
        counts: Counter[int],
        sizes: dict[int, int],
        costs: dict[int, int],
    ) -> int:
        """How many modules are traced if those that look so are no regions."""
        total = counts[look]
        for each in set(inside):
            if counts[each] > 1 and sizes[each] > 1:
                total += min(sizes[each], costs[each])
            else:
                total += counts[look] * sizes[each] * inside.count(each)
        return total

    def _walk(self, root: Any) -> Iterator[Any]:
        """Modules that are new, each once, before its parts."""
        waiting = [root]
        while waiting:
            module = waiting.pop()
            if id(module) not in self._seen:
                self._seen[id(module)] = module
                yield module
                waiting += _children(module)

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
