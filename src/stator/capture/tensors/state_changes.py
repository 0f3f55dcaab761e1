"""Changes of torch's state that the program makes: grad mode, autocast, inference mode, flags.

Stage: capture, for `Tensors`. In: a call of torch's own functions for it. Out: the change, made now
and recorded in the graph. What is entered is left by whoever holds it.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.diagnostics.catalogue import TorchState
from stator.diagnostics.places import Place, stack
from stator.graph import OutputGraph
from stator.graph.leaves import leaves
from stator.graph.passes.retry import Changes
from stator.graph.recording.state import Scope, StateRecorder
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING, World

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_BEFORE: Final = ("device", "prev", "prev_fastdtype", "prev_cache_enabled")
"""What `with torch.autocast(...):` keeps of what it was before."""
_BEFORE_THE_CALL: Final = "a context manager is left that was entered before the call"


class StateChanges:
    """What one trace has changed, and which of its context managers are open."""

    def __init__(self, graph: OutputGraph, world: World, state: StateRecorder) -> None:
        self._graph = graph
        self._world = world
        self._state = state
        self._open: dict[int, list[Scope]] = {}  # by id of the context manager
        self._left: tuple[int, tuple[Place, ...]] | None = None  # where the first was
        self.flags = 0  # how often one was set

    def change(
        self, frame: Frame | None, action: str, function: Any, args: list[Any], kwargs: Any
    ) -> Any:
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
                self._leave(frame, function, holder)
            else:
                self._state.exit(open_scopes.pop())
            return None
        if leaves.shown(function).startswith("_"):
            entered: Scope = getattr(self._state, action)(*args, **(kwargs or {}))
            return entered
        holder = args[0]
        if action == "enter_autocast":
            names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
            scope = self._state.enter_autocast(*self._attributes(holder, names))
        else:
            scope = self._state.enter_inference_mode(*self._attributes(holder, ("mode",)))
        scope.holder = holder
        self._open.setdefault(id(holder), []).append(scope)
        return holder if action == "enter_autocast" else None

    def _leave(self, frame: Frame | None, function: Any, holder: Any) -> None:
        """A context manager is left that was entered before the call, as behind a split."""
        in_order = not self._state.inside and id(holder) not in self._open
        if function is not torch.autocast.__exit__ or not in_order:
            raise TorchState(_BEFORE_THE_CALL)
        device, enabled, dtype, caching = self._attributes(holder, _BEFORE)
        if frame is not None:
            self._left = self._left or (frame.ops.steps - 1, stack(frame))
        scope = self._state.leave_autocast(device, dtype, enabled, caching)
        scope.holder = holder
        if (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) != (
            enabled,
            dtype,
        ):
            raise TorchState("autocast was as no context manager makes it")

    def check(self, tracer: "Tracer", changes: Changes, *, steps: bool) -> None:
        """A graph that raises must have changed nothing: the program runs then, and leaves them."""
        if self._left is not None and (changes.inputs or changes.others or steps):
            tracer.before, places = self._left
            signal = TorchState(_BEFORE_THE_CALL)
            signal.places = places
            raise signal

    def _attributes(self, holder: Any, names: Sequence[str]) -> list[Any]:
        """What a context manager keeps by these names; it may have others after each call."""
        record = self._world.records.get(id(holder))
        if record is None:
            own = objects.instance_dict(holder) or {}
            found = [own.get(name, MISSING) for name in names]
        else:
            found = [self._world.attribute(record, name) for name in names]
        if any(each is MISSING for each in found):
            raise TorchState("a context manager is used that was not made, or entered, as usual")
        return found

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
