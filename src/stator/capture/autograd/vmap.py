"""`torch.vmap` in a trace: one node that holds the function as a subgraph.

In: a call of torch's implementation of vmap. Out: the function is evaluated once, on tensors as it
sees them, without the mapped dimension; the node maps its graph over the real ones.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.autograd.inside_transforms import alone
from stator.capture.calls.held_callables import callee
from stator.capture.texts.numbers_in_errors import answer_of
from stator.contracts import Depth
from stator.diagnostics.catalogue import Transform
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.recording.subgraph import Subgraph
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import pytree
from stator.torchlib.transforms import vmap as functorch
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_CONTAINERS: Final = TypeSet(list, tuple, dict)
_functorch: Final[Any] = functorch  # private functions, without annotations


class VmapRegion(torch.nn.Module):
    """Maps a graph over some dimensions of its inputs."""

    transforms = True  # for backends: not every operator can be mapped
    computes = True  # and does nothing else, if its graph doesn't

    def __init__(
        self,
        body: fx.GraphModule,
        in_dims: tuple[int | None, ...],
        out_dims: tuple[int | None, ...],
        randomness: str,
    ) -> None:
        super().__init__()
        self.body = body
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness
        self.__name__ = "torch.vmap"

    def forward(self, *inputs: Any) -> Any:
        vmap: Any = torch.vmap  # its annotations leave None out
        return vmap(self.body.forward, self.in_dims, self.out_dims, self.randomness)(*inputs)


def vmap(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`vmap_impl(function, in_dims, out_dims, randomness, chunk_size, *args)`."""
    function, in_dims, out_dims, randomness, chunk_size, *given = args
    if chunk_size is not None:
        raise Transform("torch.vmap in chunks")
    calls.values.ready((in_dims, out_dims, given), Depth.DEEP)
    for part in (in_dims, out_dims, given):
        _check(part)
    placed = answer_of(calls.tensors, frame, _placed, function, in_dims, out_dims, given)
    _, dims, flat, spec = placed
    try:
        called = functools.partial(evaluated, frame, callee(calls, function), **kwargs)
        return _region(calls, frame, called, (dims, flat, spec), out_dims, randomness)
    except RecordingError as error:
        raise Transform(f"torch.vmap: {error}") from None
    except UntrackedTensorError:
        raise Transform("a tensor leaves a function that is mapped sideways") from None


def _placed(function: Any, in_dims: Any, out_dims: Any, given: list[Any]) -> Any:
    _functorch._check_out_dims_is_int_or_int_pytree(out_dims, function)
    return _functorch._process_batched_inputs(in_dims, tuple(given), function)


def _region(
    calls: "Calls",
    frame: Frame,
    called: Callable[..., Any],
    given: tuple[list[int | None], list[Any], Any],
    out_dims: Any,
    randomness: str,
) -> Any:
    dims, flat, spec = given
    graph = calls.tensors.graph
    inner = Subgraph(graph)
    mapped = [(value, dim) for value, dim in zip(flat, dims, strict=True) if dim is not None]
    with DisableTorchFunction(), graph.fake_mode:
        parts = [_part(value, dim) for value, dim in mapped]
    before = list(map(version_unseen, parts))
    with inner, calls.tensors.inside.entered(inner):
        inner.take(parts, "mapped")
        rest = iter(parts)
        placed = [
            value if dim is None else next(rest) for value, dim in zip(flat, dims, strict=True)
        ]
        result = called(*pytree.tree_unflatten(placed, spec))
        calls.values.ready(result, Depth.DEEP)
        _check(result, tensors=True)
        outputs, out_spec = pytree.tree_flatten(result)
        if list(map(version_unseen, parts)) != before:
            raise Transform("a function that is mapped changes its argument")
        made_dims = _dims_of(result, out_dims, out_spec)
        for output in outputs:
            inner.require(output)
    body = inner.finish(tuple(outputs))
    outer = inner.inputs
    in_dims = (*(dim for _, dim in mapped), *(None for _ in outer))
    region = VmapRegion(body, in_dims, made_dims, randomness)
    made = graph.call_region(
        "vmap",
        region,
        [*(value for value, _ in mapped), *outer],
        stack_trace=calls.tracer.stack_trace(frame),
    )
    return pytree.tree_unflatten(list(made), out_spec)


def _part(value: torch.Tensor, dim: int) -> torch.Tensor:
    """What the function sees of a tensor: nothing that is mapped says that it requires grad."""
    if value.shape[dim]:
        return alone(value.select(dim, 0))
    sizes = [*value.shape[:dim], *value.shape[dim + 1 :]]
    return torch.empty(sizes, dtype=value.dtype, device=value.device)


def _dims_of(result: Any, out_dims: Any, spec: Any) -> tuple[int | None, ...]:
    """The mapped dimension of each output."""
    if type(result) is FakeTensor and type(out_dims) is tuple and len(out_dims) == 1:
        found = list(out_dims)
    else:
        found = _functorch._broadcast_to_and_flatten(out_dims, spec)
    if found is None:
        raise Transform("torch.vmap with dimensions that don't fit what is returned")
    return tuple(found)


def _check(value: Any, *, tensors: bool = False) -> None:
    """Nothing but tensors and constants, in plain containers; with `tensors`, no constants."""
    kind = type(value)
    if _CONTAINERS.holds(kind):
        if kind is dict and not all(CONSTANTS.holds(type(key)) for key in value):
            raise Transform("torch.vmap with a dict whose keys are objects")
        for part in value.values() if kind is dict else value:
            _check(part, tensors=tensors)
    elif kind is not FakeTensor and (tensors or not CONSTANTS.holds(kind)):
        raise Transform(f"torch.vmap with an object of type {kind.__qualname__}")


VMAP: Final = {id(_functorch.vmap_impl): vmap}
