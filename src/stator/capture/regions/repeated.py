"""Which modules are repeated, so that calls of them are regions (`compile(…, regions="auto")`).

Stage: capture. In: modules that the program calls. Out: whether a module has siblings of its class.
This only decides what is tried: it is no fact of the trace, and nothing of it is guarded.
"""

from collections import Counter
from typing import Any

from torch import nn

from stator import objects


class Repeated:
    """The repeated modules that one trace has come across."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self._found: set[int] = set()

    def holds(self, module: Any) -> bool:
        if id(module) not in self._seen:
            self._learn(module)
        return id(module) in self._found

    def _learn(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            module = waiting.pop()
            if id(module) in self._seen:
                continue
            self._seen[id(module)] = module
            children = _children(module)
            kinds = Counter(map(type, children))
            # A layer without parts is one operator or two: a graph of its own would cost more.
            self._found.update(
                id(each) for each in children if kinds[type(each)] > 1 and _children(each)
            )
            waiting += children


def _children(module: Any) -> list[Any]:
    own = objects.instance_dict(module) or {}
    held: Any = dict.get(own, "_modules")
    if not objects.is_subtype(type(held), dict):
        return []
    values: list[Any] = list(dict.values(held))
    return [each for each in values if objects.is_subtype(type(each), nn.Module)]
