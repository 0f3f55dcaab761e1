"""Graphs that are the same as one that was compiled before: the backend need not do it again.

Stage: driver. In: the graph of a trace that differs from an earlier one in the numbers of hooks
(`capture.hooks`): those of the first call are guarded, which costs next to nothing, until they turn
out to be others in the next. Then the call is traced again without them, and records what it has
recorded before. Out: `fingerprint`, which is equal for graphs that a backend can't tell apart, and
what it has made of such a graph.

Whatever can't be compared (symbols, tensors and graphs inside of a graph) has no fingerprint.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stator.capture import Trace
from stator.capture.modules.module_hooks import SAME_HOOKS
from stator.diagnostics.artefacts import Title
from stator.driver import graph_keys
from stator.driver.backend import Ready
from stator.driver.dynamics import hooks_of
from stator.driver.naming import Lines
from stator.graph import Recorded
from stator.guards import Callback, Guard
from stator.guards.tensors import torch_state_guards
from stator.torchlib.tensors import DisableTorchFunction


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
            return (*map(str, torch_state_guards()), *graph_keys.nodes(recorded.module.graph))
    except graph_keys.IncomparableError:
        return None
