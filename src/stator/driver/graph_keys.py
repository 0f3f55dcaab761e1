"""What a backend can see of a graph, so that two can be compared.

Stage: driver. In: a graph. Out: for each node, what is equal for nodes that a backend can't tell
apart. Symbols, tensors and graphs inside of a graph can't be compared.
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.memory import storage_of

_PLAIN: Final = frozenset({str, int, bool, type(None), type(...)})
_SETTINGS: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class IncomparableError(Exception):
    """There is something in a graph that can't be compared."""


def nodes(graph: fx.Graph) -> Iterator[tuple[Any, ...]]:
    """All of a graph; raises `IncomparableError`."""
    numbers: dict[fx.Node, int] = {}
    memory: dict[int, int] = {}
    for node in graph.nodes:
        numbers[node] = len(numbers)
        if node.op == "placeholder":
            yield _given(node.meta.get("example_value"), memory)
        elif node.op in ("call_function", "call_method", "output"):
            target = node.target if isinstance(node.target, str) else _Same(node.target)
            yield node.op, target, _shown(node.args, numbers), _shown(node.kwargs, numbers)
        else:
            raise IncomparableError


class _Same:
    """A function, compared by identity and kept alive."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and other._function is self._function

    def __hash__(self) -> int:
        return id(self._function)


def _given(value: Any, memory: dict[int, int]) -> tuple[Any, ...]:
    """An input: all that a fake tensor tells."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        raise IncomparableError
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    if not all(type(each) is int for each in numbers):
        raise IncomparableError
    shared = memory.setdefault(storage_of(value), len(memory))
    flags = value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg()
    kind = isinstance(value, torch.nn.Parameter), value.is_inference()
    return value.dim(), numbers, value.dtype, value.device, flags, kind, shared


def _shown(value: Any, numbers: dict[fx.Node, int]) -> Any:
    """An argument of a node, with nodes as numbers and constants with their types."""
    cls = type(value)
    if isinstance(value, fx.Node):
        return "node", numbers[value]
    if cls in _PLAIN or isinstance(value, _SETTINGS):
        return cls, value
    if cls is float:
        return cls, value.hex()
    if cls is slice:
        return cls, *(_shown(each, numbers) for each in (value.start, value.stop, value.step))
    if isinstance(value, list | tuple):
        return cls, *(_shown(each, numbers) for each in value)
    if isinstance(value, dict):
        pairs = (each for item in value.items() for each in item)
        return cls, *(_shown(each, numbers) for each in pairs)
    raise IncomparableError
