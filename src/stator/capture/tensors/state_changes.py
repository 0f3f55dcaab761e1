"""Changes of torch's state that the program makes: grad mode, autocast, inference mode, flags.

Stage: capture, for `Tensors`. In: a call of torch's own functions for it. Out: the change, made now
and recorded in the graph. What is entered is left by whoever holds it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from stator import objects
from stator.diagnostics.catalogue import (
    TorchState,
)
from stator.graph import OutputGraph
from stator.graph.leaves import leaves
from stator.graph.recording.state import Scope, StateRecorder
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import World


class StateChanges:
    """What one trace has changed, and which of its context managers are open."""

    def __init__(self, graph: OutputGraph, world: World, state: StateRecorder) -> None:
        self._graph = graph
        self._world = world
        self._state = state
        self._open: dict[int, list[Scope]] = {}  # by id of the context manager
        self.flags = 0  # how often one was set

    def change(self, action: str, function: Any, args: list[Any], kwargs: Any) -> Any:
        """What a leaf rule of the kind STATE says."""
        if action == "flag":
            # torch's own setters of flags: done now, and again when the graph runs.
            self.flags += 1
            self._graph.effect(function, *args)
            function(*args)
            return None
        if action == "set_grad_enabled":
            self._state.set_grad_enabled(bool(args[0]))
            return None
        if action == "exit":
            holder = args[0]
            open_scopes = self._open.get(id(holder))
            if type(holder) is Scope:
                self._state.exit(holder)
            elif not open_scopes:
                raise TorchState("a context manager is left that was entered before the call")
            else:
                self._state.exit(open_scopes.pop())
            return None
        if leaves.shown(function).startswith("_"):
            entered: Scope = getattr(self._state, action)(*args, **(kwargs or {}))
            return entered
        holder = args[0]
        record = self._world.records.get(id(holder))
        if record is not None:
            self._world.fill_attributes(record)
        own = objects.instance_dict(holder) or {}
        if action == "enter_autocast":
            scope = self._state.enter_autocast(
                own["device"], own["fast_dtype"], own["_enabled"], own["_cache_enabled"]
            )
        else:
            scope = self._state.enter_inference_mode(own["mode"])
        scope.holder = holder
        self._open.setdefault(id(holder), []).append(scope)
        return holder if action == "enter_autocast" else None

    @contextlib.contextmanager
    def without_grad(self) -> Iterator[None]:
        """Grad mode is off inside, in the graph too."""
        enabled = torch.is_grad_enabled()
        with DisableTorchFunction():
            self._state.set_grad_enabled(False)
        try:
            yield
        finally:
            with DisableTorchFunction():
                self._state.set_grad_enabled(enabled)
