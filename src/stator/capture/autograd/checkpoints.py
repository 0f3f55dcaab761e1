"""`torch.utils.checkpoint` in a trace.

In: a call of `checkpoint(function, *args)`. Out: where nothing needs gradients, the function's own
operations; else one node that holds them as a subgraph, which is computed again for the backward.
The function is evaluated like any other, and may return anything: what is in the graph is the
tensors that it has made.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx
import torch.utils.checkpoint

from stator import objects
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.diagnostics.catalogue import RegionContents
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.passes.drawing import nodes_of
from stator.graph.passes.retry import draws
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


class CheckpointRegion(torch.nn.Module):
    """A checkpointed body: its intermediate results are computed again for the backward."""

    def __init__(self, body: fx.GraphModule, options: dict[str, Any]) -> None:
        super().__init__()
        self.body = body
        self.options = options
        self.__name__ = "torch.utils.checkpoint"

    def forward(self, *inputs: Any) -> Any:
        kinds = set(map(type, inputs))
        if not kinds.isdisjoint(_REAL) and kinds <= {*_REAL, int, float}:
            # The operator leaves random numbers to the backend that traces it.
            return torch.utils.checkpoint.checkpoint(self.body, *inputs, **self.options)
        hop = torch.ops.higher_order.tag_activation_checkpoint
        return hop(self.body, *inputs, use_reentrant=False)


_REAL: Final = (torch.Tensor, torch.nn.Parameter)


def checkpoint(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    """`torch.utils.checkpoint.checkpoint(function, *args)`."""
    options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
    function, *given = args or [kwargs.pop("function", None)]
    if function is None:
        raise RegionContents("torch.utils.checkpoint makes a decorator")
    tensors = calls.tensors
    tensors.inside.refuse("torch.utils.checkpoint")
    if not torch.is_grad_enabled():
        return evaluated(frame, function, *given, **kwargs)
    wanted = [value for name in _REFUSED if (value := options.get(name)) is not None]
    if any(value is not False for value in wanted):
        raise RegionContents("torch.utils.checkpoint with a context or hooks")
    reentrant = options.get("use_reentrant") is not False
    if reentrant:
        if options.get("debug"):
            raise RegionContents("torch.utils.checkpoint refuses debug, being reentrant")
        with DisableTorchFunction():
            if not any(tensors.holds(type(each)) and each.requires_grad for each in given):
                raise RegionContents("torch.utils.checkpoint drops gradients, being reentrant")
    inner = Subgraph(tensors.graph)
    try:
        with inner:
            before = calls.changed()
            result = evaluated(frame, function, *given, **kwargs)
            if calls.changed() != before:  # once more in the backward
                raise RegionContents("a checkpointed function changes objects from before the call")
            outputs = _outputs(calls, inner, result, reentrant)
        body = inner.finish(outputs)
        if options.get("preserve_rng_state") is False and any(map(draws, nodes_of(body))):
            raise RegionContents("a checkpointed function draws other numbers the second time")
        names = ("use_reentrant", "preserve_rng_state")
        used = {name: options[name] for name in names if options.get(name) is not None}
        region = CheckpointRegion(body, {"use_reentrant": True, **used})
        trace = calls.tracer.stack_trace(frame)
        made = tensors.graph.call_region(
            "checkpoint", region, inner.inputs, stack_trace=trace, rule=body
        )
    except RecordingError as error:
        raise RegionContents(f"torch.utils.checkpoint: {error}") from None
    except UntrackedTensorError:
        raise RegionContents("a tensor leaves a checkpointed function sideways") from None
    return _returned(calls, result, dict(zip(map(id, outputs), made, strict=True)))


def _outputs(calls: "Calls", inner: Subgraph, result: Any, reentrant: bool) -> tuple[Any, ...]:
    """The tensors that a function returns, in whatever they are; each once.

    A checkpoint that is reentrant is a `torch.autograd.Function`: tensors in containers have no
    gradient, and one that is returned as it came is another tensor.
    """
    if reentrant:
        outputs = result if type(result) is tuple else (result,)
        if not all(calls.tensors.holds(type(value)) for value in outputs):
            raise RegionContents("a reentrant checkpoint returns more than tensors")
        return outputs
    found = {id(value): value for value in _tensors(calls, result)}
    outputs = tuple(each for each in found.values() if not inner.arguments.is_outer(each))
    if not outputs:
        raise RegionContents("a checkpointed function returns no tensor that it has made")
    return outputs


def _tensors(calls: "Calls", value: Any) -> Iterator[Any]:
    """The tensors in what was returned. Raises where it could hide one."""
    cls = type(value)
    if calls.world.is_world(value) and cls in (list, dict):
        raise RegionContents(
            f"a checkpointed function returns a {cls.__name__} that was there before"
        )
    if calls.tensors.holds(cls):
        yield value
    elif cls in _SEQUENCES or (objects.is_subtype(cls, tuple) and hasattr(cls, "_fields")):
        for each in tuple.__iter__(value) if cls is not list else list.__iter__(value):
            yield from _tensors(calls, each)
    elif cls is dict:
        for each in dict.values(value):
            yield from _tensors(calls, each)
    elif not CONSTANTS.holds(cls) and cls not in _OTHERS:
        raise RegionContents(f"a checkpointed function returns an object of type {cls.__name__}")


def _returned(calls: "Calls", value: Any, made: dict[int, Any]) -> Any:
    """What was returned, with the results of the region; containers stay the same objects."""
    cls = type(value)
    if calls.tensors.holds(cls):
        return made.get(id(value), value)
    if cls is tuple:
        return tuple(_returned(calls, each, made) for each in value)
    if cls is list:
        value[:] = [_returned(calls, each, made) for each in value]
    elif cls is dict:
        for key, each in list(dict.items(value)):
            dict.__setitem__(value, key, _returned(calls, each, made))
    elif objects.is_subtype(cls, tuple):
        return tuple.__new__(cls, [_returned(calls, each, made) for each in tuple.__iter__(value)])
    return value


_SEQUENCES: Final = (tuple, list)
_OTHERS: Final = (torch.Size, torch.SymInt, torch.SymFloat, torch.SymBool)
_OPTIONS: Final = (
    "use_reentrant",
    "context_fn",
    "determinism_check",
    "debug",  # tells more of an error that a graph can't have: the second run is the same
    "early_stop",
    "preserve_rng_state",
    "respect_saved_tensors_hooks",  # since torch 2.15
)
_REFUSED: Final = ("context_fn", "respect_saved_tensors_hooks")
