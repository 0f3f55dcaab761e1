"""Graphs that are the same as one that was compiled before: the backend need not do it again.

Stage: driver. In: the graph of a trace that differs from an earlier one in the numbers of hooks
(`capture.hooks`): those of the first call are guarded, which costs next to nothing, until they turn
out to be others in the next. Then the call is traced again without them, and records what it has
recorded before. Out: `fingerprint`, which is equal for graphs that a backend can't tell apart, and
what it has made of such a graph.

Whatever can't be compared (symbols, tensors and graphs inside of a graph) has no fingerprint.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.fx as fx

from stator.capture import Trace
from stator.capture.modules.module_hooks import SAME_HOOKS
from stator.diagnostics.artefacts import Title
from stator.driver.backend import Ready
from stator.driver.dynamics import hooks_of
from stator.driver.naming import Lines
from stator.graph import Recorded
from stator.graph.fakes.memory import storage_of
from stator.guards import Callback, Guard
from stator.guards.tensors import torch_state_guards
from stator.torchlib.tensors import DisableTorchFunction

_PLAIN: Final = frozenset({str, int, bool, type(None), type(...)})
_SETTINGS: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass(frozen=True, eq=False)
class Made:
    """What a backend has made of a graph; kept with the entry that calls it."""

    fingerprint: tuple[Any, ...]
    ready: Ready
    title: Title
    """Under which the graph's code runs."""
    lines: Lines


def has_numbers_of_hooks(trace: Trace) -> bool:
    """Whether the trace has read hooks of modules, by their numbers or without them."""
    led: dict[int, bool] = {}  # by id of a source: whether what is at it lies in such a dict
    return any(_is_of_hook(guard, led) for guard in trace.guards)


def _is_of_hook(guard: Guard, led: dict[int, bool]) -> bool:
    base = None if guard.source is None else guard.source.base
    if base is not None:
        found = led.get(id(base))
        if found is None:
            found = led[id(base)] = hooks_of(base) is not None
        if found:
            return True
    check = guard.check
    asked = type(check) is Callback and check.description == SAME_HOOKS
    return asked and hooks_of(guard.source) is None


def made_before(fingerprint: tuple[Any, ...], kept: Iterable[Any]) -> Made | None:
    """What was made of an equal graph, among what entries keep."""
    for each in kept:
        if type(each) is Made and each.fingerprint == fingerprint:
            return each
    return None


def fingerprint(recorded: Recorded) -> tuple[Any, ...] | None:
    """What a backend can see of a graph, and torch's state; None if that can't be compared."""
    try:
        with DisableTorchFunction():
            return (*map(str, torch_state_guards()), *_nodes(recorded.module.graph))
    except _IncomparableError:
        return None


class _IncomparableError(Exception):
    """There is something in a graph that can't be compared."""


def _nodes(graph: fx.Graph) -> Iterator[tuple[Any, ...]]:
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
            raise _IncomparableError


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
        raise _IncomparableError
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    if not all(type(each) is int for each in numbers):
        raise _IncomparableError
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
    raise _IncomparableError
