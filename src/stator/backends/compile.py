"""From a recorded graph to a callable: the one place where backends are called.

In: the graph module, example inputs and the fake mode they belong to. Out: a callable that takes
the graph's inputs and returns its outputs. A backend may change the graph module it is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.fx as fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode

from stator.graph.interrupts import is_interrupt
from stator.graph.modes import interruptible
from stator.graph.state import preserved

from .errors import BackendError
from .registry import Backend, Compiled, backend_name, lookup


@dataclass(frozen=True)
class CompiledGraph:
    """What a backend made of a graph, and the context it worked in (the backward needs it)."""

    function: Compiled
    context: TracingContext


def compile_graph(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    backend: str | Backend,
    *,
    fake_mode: FakeTensorMode | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledGraph:
    """Calls a backend on a graph. `options` are keyword arguments for the backend.

    Whatever the backend does to torch's global state, random numbers included, is undone.
    """
    function = lookup(backend)
    name = backend_name(backend)
    as_given = _copied(module.graph)  # the backend may change the graph
    context = TracingContext(fake_mode)
    try:
        # It may fail in the middle of the graph, in a scope that the graph has entered.
        with preserved(), interruptible(outermost=False), tracing(context):
            compiled: object = function(module, list(example_inputs), **(options or {}))
    except Exception as error:
        if is_interrupt(error):
            raise
        problem = f"failed: {type(error).__name__}: {error}"
        given = fx.GraphModule(module, as_given)
        raise BackendError(name, problem, graph_text(given), given) from error
    if not callable(compiled):
        problem = f"returned {type(compiled).__name__} instead of a callable"
        raise BackendError(name, problem, graph_text(fx.GraphModule(module, as_given)))
    return CompiledGraph(compiled, context)


def _copied(graph: fx.Graph) -> fx.Graph:
    found = fx.Graph()
    found.output(found.graph_copy(graph, {}))
    return found


def graph_text(module: fx.GraphModule) -> str:
    """A graph as a reader wants to see it in a message."""
    readable: str = module.print_readable(print_output=False)
    return readable
