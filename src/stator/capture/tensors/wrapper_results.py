"""Wrappers among the results of a graph: what a backend would make of them.

In: the tensors that a graph hands out. Out: nothing, or a reason why it can't be this graph. A
backend puts a result together from its parts, its size and the metadata that the trace had; a size
that was open then must not be in that. Of the memory of inputs, it knows what torch says of the
wrappers themselves: where a class does not say that a result is a view of its argument
(`return_and_correct_aliasing`), or a part of a view is a result as well, the view would be a copy.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.tensors.subclasses import is_torchs
from stator.diagnostics.catalogue import SharedMemory, TensorSubclass
from stator.diagnostics.places import Place, stack
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.reached import Reached
from stator.graph.fakes.wrappers import flattened, is_wrapper, plain_parts
from stator.graph.recording.replay import hint_of
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


class Made:
    """Where operators have made the wrappers of one trace."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[torch.Tensor, int, tuple[Place, ...]]] = {}

    def note(self, frame: Frame | None, result: Any) -> None:
        """An operator was recorded."""
        if frame is None or frame.finished:
            return
        for each in result if type(result) in (tuple, list) else (result,):
            if isinstance(each, torch.Tensor) and is_wrapper(each):
                self._places.setdefault(id(each), (each, frame.ops.steps - 1, stack(frame)))

    def check(self, tracer: "Tracer", outputs: Sequence[Any]) -> None:
        """Whether a backend knows which memory the results have."""
        tensors = [each for each in outputs if isinstance(each, torch.Tensor)]
        found = [each for each in tensors if id(each) in self._places]
        if not found:
            return
        with DisableTorchFunction():
            memory = list(tracer.tensors.graph.fakes.given_memory())
            given = {id(each) for each in memory}
            known = {storage_of(each) for each in memory}
            whole = {storage_of(each) for each in memory if is_wrapper(each)}
            parts = {storage_of(each) for each in tensors if id(each) not in given}
            for each in found:
                views = [part for part in plain_parts(each) if id(part) not in given]
                shared = known & set(map(storage_of, views))
                if id(each) in given or not shared:
                    continue
                if storage_of(each) in whole and not shared & parts:
                    continue
                kind = type(each).__qualname__
                signal = SharedMemory(f"a result of class {kind} shares memory with an input")
                _, tracer.before, signal.places = self._places[id(each)]
                raise signal


def check_results(tracer: "Tracer", outputs: Iterable[Any]) -> None:
    """Whether the metadata of wrappers is without symbols; else no size may be open."""
    tensors = tracer.tensors
    for each in outputs:
        if isinstance(each, torch.Tensor) and is_wrapper(each) and not is_torchs(type(each)):
            with DisableTorchFunction(), tensors.graph.fake_mode:
                if _keeps_symbols(each):
                    kind = type(each).__qualname__
                    tensors.shapes.assumed.refused = f"a number is open that a {kind} keeps"


def _keeps_symbols(tensor: torch.Tensor) -> bool:
    numbers = [each for each in _reached(tensor) if type(each) in _SYMBOLS]
    if not numbers:
        return False
    if not all(each.node.has_hint() for each in numbers):
        kind = type(tensor).__qualname__
        raise TensorSubclass(f"a result of class {kind} has a number that depends on values")
    made = _made_as_later(tensor)
    return made is None or any(type(each) in _SYMBOLS for each in _reached(made))


_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _reached(tensor: torch.Tensor) -> list[Any]:
    return Reached([objects.instance_dict(tensor)]).values


def _made_as_later(tensor: Any) -> torch.Tensor | None:
    """The tensor, put together from parts of known size."""
    names, context = flattened(tensor)
    parts: dict[str, Any] = {}
    for name in names:
        part = getattr(tensor, name)
        if isinstance(part, torch.Tensor):
            made = _made_as_later(part) if is_wrapper(part) else _known(part)
            if made is None:
                return None
            part = made
        parts[name] = part
    size, stride = map(_hints, (tensor.size(), tensor.stride()))
    try:
        found: torch.Tensor = type(tensor).__tensor_unflatten__(parts, context, size, stride)
    except Exception:  # whatever the program's class raises
        return None
    return found


def _known(part: torch.Tensor) -> torch.Tensor:
    size, stride = map(_hints, (part.size(), part.stride()))
    return torch.empty_strided(size, stride, dtype=part.dtype, device=part.device)


def _hints(numbers: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(hint_of, numbers))
