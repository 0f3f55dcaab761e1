"""`torch.utils.checkpoint` in a trace.

In: a call of `checkpoint(function, *args)`. Out: where nothing needs gradients, the function's own
operations; else one node that holds them as a subgraph, which is computed again for the backward.
The function is evaluated like any other, and may return anything: what is in the graph is the
tensors that it has made.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx
import torch.utils.checkpoint
from torch.utils.checkpoint import noop_context_fn

from stator import objects
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.autograd.selective import Selection, selection
from stator.diagnostics.catalogue import RegionContents
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.wrappers import is_wrapper, plain_parts
from stator.graph.passes.drawing import nodes_of
from stator.graph.passes.purity import WRITTEN
from stator.graph.passes.retry import draws
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.autograd import DECORATED_CHECKPOINT
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.builtin_calls import Handler
    from stator.capture.calls.calls import Calls


class CheckpointRegion(torch.nn.Module):
    """A checkpointed body: its intermediate results are computed again for the backward."""

    def __init__(
        self, body: fx.GraphModule, options: dict[str, Any], selection: Selection | None
    ) -> None:
        super().__init__()
        self.body = body
        self.options = options
        if selection is not None:
            self.options["context_fn"] = selection
            body.meta[CONTEXTS] = selection
        self.__name__ = "torch.utils.checkpoint"

    def forward(self, *inputs: Any) -> Any:
        kinds = {kind for value in inputs for kind in _kinds(value)}
        if not kinds.isdisjoint(_REAL) and kinds <= {*_REAL, int, float}:
            # The operator leaves random numbers to the backend that traces it.
            return torch.utils.checkpoint.checkpoint(self.body, *inputs, **self.options)
        hop = torch.ops.higher_order.tag_activation_checkpoint
        return hop(self.body, *inputs, use_reentrant=False)


def _kinds(value: Any) -> set[type]:
    """The types of the tensors in a wrapper; of another value, its own."""
    if not is_wrapper(value):
        return {type(value)}
    return set(map(type, plain_parts(value)))


CONTEXTS: Final = "_checkpoint_context_fn"  # where torch's operator looks for it
_REAL: Final = (torch.Tensor, torch.nn.Parameter)


def checkpoint(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    """`torch.utils.checkpoint.checkpoint(function, *args)`."""
    options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
    function, *given = args or [kwargs.pop("function", None)]
    if function is None:
        raise RegionContents("torch.utils.checkpoint makes a decorator")
    tensors = calls.tensors
    tensors.inside.refuse("torch.utils.checkpoint")
    reentrant = options.get("use_reentrant") is not False
    selected = _selected(calls, frame, options, reentrant)
    if not torch.is_grad_enabled():
        return evaluated(frame, function, *given, **kwargs)
    if reentrant:
        if options.get("debug"):
            raise RegionContents("torch.utils.checkpoint refuses debug, being reentrant")
        with DisableTorchFunction():
            if not any(tensors.holds(type(each)) and each.requires_grad for each in given):
                raise RegionContents("torch.utils.checkpoint drops gradients, being reentrant")
    inner = Subgraph(tensors.graph, wrappers=True)
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
        if selected is not None and any(node.meta.get(WRITTEN) for node in nodes_of(body)):
            raise RegionContents("a selective checkpoint changes tensors in place")
        region = CheckpointRegion(body, {"use_reentrant": True, **used}, selected)
        trace = calls.tracer.stack_trace(frame)
        made = tensors.graph.call_region(
            "checkpoint",
            region,
            inner.inputs,
            stack_trace=trace,
            rule=body if selected is None else None,  # a policy is asked while it runs
            results=None if reentrant else outputs,
        )
        if selected is not None:
            selected.settle(calls, frame)
    except RecordingError as error:
        raise RegionContents(f"torch.utils.checkpoint: {error}") from None
    except UntrackedTensorError:
        raise RegionContents("a tensor leaves a checkpointed function sideways") from None
    if not reentrant:
        return result
    return tuple(made) if type(result) is tuple else made[0]


def _decorated(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    """A call of what `checkpoint(use_reentrant=False)` has made of a function."""
    if len(args) != 3 or not kwargs.keys() <= set(_OPTIONS):
        raise RegionContents("torch.utils.checkpoint with options that are not known")
    function, given, named = args
    if not kwargs.keys().isdisjoint(named):
        raise RegionContents("a checkpointed function has an argument named as an option")
    return checkpoint(calls, frame, _, [function, *given], {**named, **kwargs})


def _selected(
    calls: "Calls", frame: Frame, options: dict[str, Any], reentrant: bool
) -> Selection | None:
    """What is saved of a checkpointed function by choice. Raises for options that are not."""
    if options.get("respect_saved_tensors_hooks") not in (None, False):  # own: an option
        raise RegionContents("torch.utils.checkpoint with hooks")
    if options.get("determinism_check", "default") not in ("default", "none"):
        raise RegionContents("torch.utils.checkpoint refuses its determinism_check")
    context_fn = options.get("context_fn", noop_context_fn)
    if context_fn is noop_context_fn:
        return None
    if reentrant:
        raise RegionContents("torch.utils.checkpoint refuses contexts, being reentrant")
    return selection(calls, frame, context_fn)


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
    """The tensors in what was returned: one that is not found can't be used (`UntrackedTensor`)."""
    waiting, seen = [value], set[int]()
    while waiting:
        value = waiting.pop()
        cls = type(value)
        if id(value) in seen or id(value) in calls.world.origins:
            continue  # what was there before holds no tensor of the function's
        seen.add(id(value))
        if calls.tensors.holds(cls):
            yield value
            continue
        base = objects.layout_base(cls)
        if base in _CONTAINERS:
            parts: Any = dict.values(value) if base in _DICTS else base.__iter__(value)
            waiting += reversed(list(parts))
        if cls not in _CODE and not objects.is_subtype(cls, type):
            waiting += reversed((objects.instance_dict(value) or {}).values())


CHECKPOINTS: Final[dict[int, "Handler"]] = {id(torch.utils.checkpoint.checkpoint): checkpoint}
if DECORATED_CHECKPOINT is not None:
    CHECKPOINTS[id(DECORATED_CHECKPOINT)] = _decorated
_DICTS: Final = (dict, OrderedDict)
_CONTAINERS: Final = (tuple, list, deque, *_DICTS)
_CODE: Final = (FunctionType, ModuleType)
_OPTIONS: Final = (
    "use_reentrant",
    "context_fn",
    "determinism_check",
    "debug",  # tells more of an error that a graph can't have: the second run is the same
    "early_stop",
    "preserve_rng_state",
    "respect_saved_tensors_hooks",  # since torch 2.15
)
