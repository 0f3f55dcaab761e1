"""From a recorded graph to what the residual function calls.

Stage: driver. In: the recorded graph, in the grad mode and autocast in which it starts, which are
those of the call being compiled. Out: a callable of the graph's inputs.
"""

import copy
import linecache
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch.fx as fx
from torch.fx.graph_module import _loader

from stator import config
from stator.backends import BackendError
from stator.backends.compile import compile_graph
from stator.backends.shortcut import NO_ASSERTS, only_torch_operators, shortcut
from stator.driver.options import Options
from stator.graph import Recorded


def compile_recorded(recorded: Recorded, options: Options) -> Callable[..., Any]:
    """Calls the backend; Inductor's code is called as directly as is safe."""
    _forget_with(recorded.module)
    given = options.for_backend
    direct = options.inductor and config.inductor_shortcuts
    if direct and only_torch_operators(recorded.module):
        given["patches"] = NO_ASSERTS
    depends = _depends_on_values(recorded.module)
    kept = copy.deepcopy(recorded.module.graph) if depends else None
    try:
        made = compile_graph(
            recorded.module,
            recorded.example_inputs,
            options.backend,
            fake_mode=recorded.fake_mode,
            options=given,
        )
    except BackendError as error:
        if kept is None or not _needs_values(error):
            raise
        warnings.warn(f"{_UNCOMPILED}\n  {error.__cause__}", stacklevel=2)
        return fx.GraphModule(recorded.module, kept).forward
    return shortcut(made).call if direct else made.function


# Backends know less about such graphs than about others; the graph itself is right.
_UNCOMPILED: Final = (
    "a graph with sizes or numbers that depend on the values in tensors runs uncompiled, since the "
    "backend would need the values:"
)


def _depends_on_values(module: fx.GraphModule) -> bool:
    return any("unbacked_bindings" in node.meta for node in module.graph.nodes)


def _needs_values(error: BaseException | None) -> bool:
    while error is not None:
        text = str(error)
        if "GuardOnDataDependentSymNode" in text or "PendingUnbackedSymbolNotFound" in text:
            return True
        error = error.__cause__
    return False


def _forget_with(module: fx.GraphModule) -> None:
    """torch.fx keeps the source of every graph module for tracebacks; ours goes with the module."""
    weakref.finalize(module, _forget, module.forward.__code__.co_filename).atexit = False


def _forget(file: str) -> None:
    linecache.cache.pop(file, None)
    _loader.eval_cache.pop(file, None)
