"""Graphs in torch's profilers: each call of one is a range with a name.

Stage: run time. In: residual functions, as they are made. Out: while a profiler is active, ranges
such as `stator:forward graph 2`, and those that the program itself makes in this part of it
(`record_function`), which take as long as the graph. Otherwise nothing is different: a residual
function finds its graph in a cell, and only while a profiler is active the cell holds one that
makes a range. torch calls a function of its own when a profiler starts or stops; these are wrapped,
once.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any, Final

from torch.autograd import profiler

from stator.capture.calls import marks
from stator.capture.calls.marks import Kind, Mark
from stator.torchlib.tracers import RecordFunction

_Graph = Callable[..., Sequence[Any]]

# The graph stands beside its cell, which holds another one while a profiler is active.
_graphs: Final[
    weakref.WeakKeyDictionary[FunctionType, tuple[CellType, _Graph, tuple[str, ...]]]
] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def note(function: FunctionType, cell: CellType | None, names: tuple[str, ...]) -> None:
    """A residual function has been made that calls a graph of these names."""
    if cell is None:
        return
    with _lock:
        _graphs[function] = cell, cell.cell_contents, names
        if getattr(profiler, "_is_profiler_enabled", False):
            cell.cell_contents = _ranged(cell.cell_contents, names)


def _started() -> None:
    with _lock:
        for cell, graph, names in list(_graphs.values()):
            cell.cell_contents = _ranged(graph, names)


def _stopped() -> None:
    with _lock:
        for cell, graph, _ in list(_graphs.values()):
            cell.cell_contents = graph


def _ranged(graph: _Graph, names: tuple[str, ...]) -> _Graph:
    mark = RecordFunction
    first, *others = names

    def ranged_graph(*args: Any) -> Sequence[Any]:
        with mark(first), contextlib.ExitStack() as inner:
            for name in others:
                inner.enter_context(mark(name))
            return graph(*args)

    return ranged_graph


def _wrap(name: str, also: Callable[[], None]) -> None:
    """Lets a function of torch do something more."""
    original = getattr(profiler, name, None)
    if original is None:
        return

    def wrapper() -> None:
        original()
        also()

    wrapper.__name__ = wrapper.__qualname__ = name
    setattr(profiler, name, wrapper)
    # In a trace it would be taken for a part of the program.
    marks.put(wrapper, Mark(Kind.DISABLE, reason="a profiler is started or stopped"))


_wrap("_run_on_profiler_start", _started)
_wrap("_run_on_profiler_stop", _stopped)
