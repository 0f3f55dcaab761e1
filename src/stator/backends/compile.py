"""From a recorded graph to a callable: the one place where backends are called.

In: the graph module, example inputs and the fake mode they belong to. Out: a callable that takes
the graph's inputs and returns its outputs. A backend may change the graph module it is given.
"""

import contextvars
import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.fx as fx

from stator import config
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.wrappers import asks, is_wrapper_class
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.modes import interruptible
from stator.graph.recording.nested import as_modules, calls_of, modules_in
from stator.graph.recording.state import preserved
from stator.torchlib.backends import TracingContext, tracing
from stator.torchlib.backends import functorch_config as aot_settings
from stator.torchlib.fakes import FakeTensorMode
from stator.torchlib.tensors import DisableTorchFunctionSubclass

from .body_calls import run_bodies
from .errors import BackendError
from .registry import Backend, Compiled, backend_name, is_built_in, lookup

# AOTAutograd makes one of two operators that compute the same, and forgets that their results have
# sizes under two names: of those that are kept for the backward, one name is nobody's.
_OF_UNKNOWN: Final[Mapping[str, Any]] = {"cse": False}
# Where a backward can't be compiled, that shows when the graph is, not when the program needs it:
# with the sizes of the call it may well be.
_OF_OPEN: Final[Mapping[str, Any]] = {"force_non_lazy_backward_lowering": True}


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
    as_given = _AsGiven(module.graph)
    unasked = asks_classes(module)
    context = TracingContext(fake_mode)
    settings = _settings(module)
    if not is_built_in(backend):
        run_bodies(module)
    try:
        # It may fail in the middle of the graph, in a scope that the graph has entered.
        with (
            preserved(),
            interruptible(outermost=False),
            tracing(context),
            DisableTorchFunctionSubclass() if unasked else nullcontext(),
        ):
            compiled = _run(settings, function, module, list(example_inputs), **(options or {}))
    except Exception as error:
        if is_interrupt(error):
            raise
        problem = f"failed: {type(error).__name__}: {error}"
        given = as_given.module(module)
        raise BackendError(name, problem, graph_text(given), given) from error
    if not callable(compiled):
        problem = f"returned {type(compiled).__name__} instead of a callable"
        raise BackendError(name, problem, graph_text(as_given.module(module)))
    _note_nothing_donated(context)
    if id(compiled) == id(module) or getattr(compiled, "__self__", None) is module:
        compiled = as_it_is(module)
    return CompiledGraph(_unasked(compiled) if unasked else compiled, context)


def asks_classes(module: fx.GraphModule) -> bool:
    """Whether tensors in a graph are of classes that torch asks about each call.

    They have been asked when the graph was recorded: what it holds is what they made of the calls.
    """
    classes = set()
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            classes.add(type(value))
        else:
            classes.update(map(type, tensors_in(value)))
    return any(is_wrapper_class(cls) and asks(cls) for cls in classes)


def _unasked(compiled: Compiled) -> Compiled:
    def plainly(*args: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return compiled(*args)

    return plainly


def as_it_is(module: fx.GraphModule) -> Compiled:
    """The graph, if the backend runs it as it is: whoever has seen it keeps what it was."""
    if not calls_of(module.graph):
        return module.forward
    graph = _AsGiven(module.graph).graph()
    modules_in(graph)
    found = fx.GraphModule(module, graph)
    for name, part in found.named_children():
        if isinstance(part, fx.GraphModule) and calls_of(part.graph):
            copied = copy.deepcopy(part)
            as_modules(copied)
            setattr(found, name, copied)
    return found.forward


def _note_nothing_donated(context: TracingContext) -> None:
    """If a backward was compiled without reusing memory, it may be asked to keep its graph.

    torch looks at the setting when the backward runs, which is not the one of now.
    """
    compiled: Any = context.fw_metadata
    if compiled is not None and getattr(compiled, "bw_donated_idxs", ()) is None:
        compiled.bw_donated_idxs = []


def _run(settings: Mapping[str, Any], function: Backend, *args: Any, **options: Any) -> object:
    """Calls a backend.

    torch's settings are context variables, and compiling sets some: a program that looks at its
    context, or copies it, would find them there. Hence a copy of it.
    """

    def call() -> object:
        with _patched(settings):
            return function(*args, **options)

    return contextvars.copy_context().run(call)


def _settings(module: fx.GraphModule) -> dict[str, Any]:
    """Settings of AOTAutograd for a graph."""
    depends = depends_on_values(module)
    settings: dict[str, Any] = dict(_OF_UNKNOWN) if depends else {}
    if depends or has_open_sizes(module):
        settings.update(_OF_OPEN)
    if not config.donated_buffers:  # nobody knows yet how the backward will be called
        settings["donated_buffer"] = False
    if _is_noted(module, "recompute"):
        settings["enable_autograd_cache"] = False  # which does not look at these marks
    return settings


@contextmanager
def _patched(settings: Mapping[str, Any]) -> Iterator[None]:
    """As torch's own `patch`, each of which leaves a variable in the context of the thread."""
    before = {name: getattr(aot_settings, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(aot_settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(aot_settings, name, value)


def depends_on_values(module: fx.GraphModule) -> bool:
    """Whether there are sizes or numbers in a graph that only a run knows."""
    return _is_noted(module, "unbacked_bindings")


def _is_noted(module: fx.GraphModule, name: str) -> bool:
    """Whether something is in the meta of a node."""
    for node in module.graph.nodes:  # noqa: SIM110  (a generator is called for each)
        if name in node.meta:
            return True
    return False


def has_open_sizes(module: fx.GraphModule) -> bool:
    """Whether a graph is for more than one size, or number."""
    given = (node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder"))
    return any(map(_is_open, given))


def _is_open(given: Any) -> bool:
    if isinstance(given, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in given.shape)
    return isinstance(given, torch.SymInt | torch.SymFloat)


class _AsGiven:
    """A graph as a backend gets it, which may change it: made again only if it is to be shown."""

    def __init__(self, graph: fx.Graph) -> None:
        self._nodes = [
            (node, node.op, node.target, node.args, node.kwargs, node.name, node.type)
            for node in graph.nodes
        ]

    def graph(self) -> fx.Graph:
        graph = fx.Graph()
        made: dict[fx.Node, fx.Node] = {}
        for node, kind, target, args, kwargs, name, type_expr in self._nodes:
            given = fx.map_arg(args, made.__getitem__), fx.map_arg(kwargs, made.__getitem__)
            made[node] = graph.create_node(kind, target, *given, name, type_expr)
            made[node].meta = dict(node.meta)
        return graph

    def module(self, root: fx.GraphModule) -> fx.GraphModule:
        return fx.GraphModule(root, self.graph())


def graph_text(module: fx.GraphModule) -> str:
    """A graph as a reader wants to see it in a message."""
    readable: str = module.print_readable(print_output=False)
    return readable
