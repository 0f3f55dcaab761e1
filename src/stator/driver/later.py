"""Graphs that Inductor compiles later: when they have run so often that it pays.

Stage: driver. In: a graph, how often it is to run by its own operators (`backends/patience.py`),
and what compiles it. Out: what the residual function calls: it counts, compiles in a later call, in
the same thread, and from then on calls what was compiled.

The guards of the entry are older than what is compiled. So if Inductor takes more for granted about
open sizes than they say, the graph goes on as it is; so it does where Inductor fails, with
a warning.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

from stator.backends import BackendError
from stator.backends.patience import Patience
from stator.capture.trace.lifetime import compiling
from stator.diagnostics import progress
from stator.driver import announcements, stance
from stator.driver.label import Label
from stator.driver.one_at_a_time import compiling_alone
from stator.driver.tracers import another_traces
from stator.driver.tracing import TRACING
from stator.graph.recording.modes import interruptible
from stator.torchlib.modes import dispatch_mode_stack

Graph = Callable[..., Any]


def later(
    own: Graph,
    compile_now: Callable[[], Graph],
    wait: Patience,
    sizes: Any,
    label: Label,
    number: int,
) -> Graph:
    """The graph by its own operators, so often; then what `compile_now` makes of it.

    `sizes` is the environment of its symbols, `number` that of the compile.
    """
    left = wait.calls
    compiled: Graph | None = None

    def call(*args: Any) -> Any:
        nonlocal left, compiled
        if compiled is not None:
            return compiled(*args)
        if left > 0:
            left -= 1
            return own(*args)
        if not _may_compile():
            return own(*args)
        with compiling_alone():
            if compiled is None:  # another thread may have been faster
                compiled = _compiled(own, compile_now, sizes, label, number)
        return compiled(*args)

    return call


def _may_compile() -> bool:
    """Not where somebody traces, or watches what operators are called, or wants no compiler."""
    quiet = not TRACING.now and not another_traces() and not dispatch_mode_stack()
    return quiet and stance.current() is stance.DEFAULT


def _compiled(
    own: Graph, compile_now: Callable[[], Graph], sizes: Any, label: Label, number: int
) -> Graph:
    """What Inductor makes of the graph, if that is right for all that its guards let through."""
    began = time.perf_counter()
    before = None if sizes is None else sizes.assumed()
    try:
        with interruptible(), compiling(), progress.compiling(label.name, label.file, label.line):
            made = compile_now()
    except BackendError as error:
        warnings.warn(
            f"{label}: {error.problem}\n  The graph runs by torch's own kernels.", stacklevel=2
        )
        return own
    if before is not None and sizes.assumed() != before:
        return own
    announcements.generated(label, number, time.perf_counter() - began)
    return made
