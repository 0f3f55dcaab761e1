"""Recurrent layers as one operator of a backend's graph, in the forward and in the backward.

In: what `torch.lstm`, `torch.gru` and the like are called with. Out: what they return; and one
result more for the backward, `kept`, a tensor without meaning, at whose memory hangs what autograd
has saved. AOTAutograd saves it as any other tensor, so it lives as long as the backward may run.

The kernel calls torch's own function, under autograd; so each device takes the kernels that it has
(oneDNN, cuDNN), and the gradients are eager's. Arguments and results autograd must not keep for
itself: a backend takes care only of what the backward operator takes, and uses other memory again.
So these are arguments of the backward, and are put where autograd expects them (`_Graph`).

Who copies `kept` (a hook that moves saved tensors elsewhere) loses what hangs at it: then the
forward is computed again, with the random numbers of the first time, whose state is in `kept`.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks

from stator.graph.fakes.recurrent import Layers

_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "FRAGMENT")  # alive as long as we are
_GIVEN: Final = "str kind, Tensor data, Tensor? batch_sizes, Tensor[] states, Tensor[] params"
_REST: Final = (
    "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, "
    "bool batch_first, str[] dtypes, bool lasting"
)  # dtypes by name: a list of them is numbers to some versions of torch
_MORE: Final = "bool keeps, str? autocast, bool[] wanted"
_STATE: Final = torch.get_rng_state().numel()
_UNSAFE: Final = (torch.Tag.cudagraph_unsafe,)  # a CUDA graph would not run what is in Python
_LIBRARY.define(f"recurrent({_GIVEN}, {_REST}) -> Tensor[]")
_LIBRARY.define(f"recurrent_forward({_GIVEN}, {_REST}, {_MORE}) -> Tensor[]", tags=_UNSAFE)
_LIBRARY.define(
    f"recurrent_drawing({_GIVEN}, {_REST}, {_MORE}) -> Tensor[]",
    tags=(*_UNSAFE, torch.Tag.nondeterministic_seeded),
)
_LIBRARY.define(
    f"recurrent_backward({_GIVEN}, {_REST}, {_MORE}, "
    "Tensor[] results, Tensor kept, Tensor?[] grads) -> Tensor[]",
    tags=_UNSAFE,
)


def name_of(dtype: torch.dtype) -> str:
    """How the operators are told a dtype."""
    return str(dtype).removeprefix("torch.")


def _layers(kind: str, batch_sizes: Any, rest: Sequence[Any]) -> Layers:
    """`rest`: what the operators take after their tensors."""
    return Layers(kind, batch_sizes is not None, *rest[:6])


# ------------------------------------------------------------------ as the graph calls it


def _recurrent(
    kind: str, data: Any, batch_sizes: Any, states: Sequence[Any], params: Sequence[Any], *rest: Any
) -> list[torch.Tensor]:
    """What a backend traces: an operator with a derivative, for the state that torch is in."""
    operands = (data, *states, *params)
    trained = torch.is_grad_enabled()
    wanted = [trained and each.requires_grad for each in operands]
    device = data.device.type
    active = torch.is_autocast_enabled(device)
    lower = name_of(torch.get_autocast_dtype(device)) if active else None
    layers = _layers(kind, batch_sizes, rest)
    # These kernels need their result in the backward; a program that changes it gets an error.
    dense = kind == "lstm" and not (layers.packed or layers.bidirectional)
    keeps = dense or device != "cpu"
    with torch.autocast(device, enabled=False) if lower is not None else contextlib.nullcontext():
        results = _apply((kind, len(states), (*rest, keeps), lower, wanted), batch_sizes, *operands)
    *made, _ = results if any(wanted) else (*results, None)
    if layers.batch_first:
        made[0] = made[0].transpose(0, 1)
    return made


class _Recurrent(torch.autograd.Function):
    """The forward operator, and the backward one as its derivative."""

    @staticmethod
    def forward(ctx: Any, how: Any, batch_sizes: Any, *operands: Any) -> Any:
        kind, count, rest, lower, wanted = how
        data, states, params = operands[0], operands[1 : 1 + count], operands[1 + count :]
        draws = _layers(kind, batch_sizes, rest).draws
        forward = _DRAWING if draws else _FORWARD
        results = forward(kind, data, batch_sizes, list(states), list(params), *rest, lower, wanted)
        if any(wanted):
            ctx.how = how
            kept = (results[0], results[-1]) if rest[-1] else (results[-1],)
            ctx.save_for_backward(batch_sizes, *operands, *kept)
            ctx.mark_non_differentiable(results[-1])
            ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        kind, count, rest, lower, wanted = ctx.how
        batch_sizes, data, *others = ctx.saved_tensors
        states, others = others[:count], others[count:]
        size = len(wanted) - count - 1
        params, results = others[:size], others[size:]
        given = (kind, data, batch_sizes, states, params, *rest, lower, wanted)
        found = iter(_BACKWARD(*given, results[:-1], results[-1], list(grads[:-1])))
        return (None, None, *(next(found) if want else None for want in wanted))


_apply: Final[Any] = _Recurrent.apply


# ------------------------------------------------------------------ the kernels


class _Place:
    """A tensor that autograd wants back: one of the given ones, or a part of it; or itself."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor: torch.Tensor | None = tensor
        self.number = 0
        self.where: tuple[Any, ...] = ()

    def is_in(self, number: int, whole: torch.Tensor) -> bool:
        """Takes the place inside of `whole`, if it lies there."""
        own = self.tensor
        assert own is not None
        start = own.storage_offset() - whole.storage_offset()
        if own.dtype is not whole.dtype or start < 0 or start + _reach(own) > _reach(whole):
            return False  # a larger part of the same memory, which is not the backend's
        self.tensor, self.number, self.where = None, number, (own.shape, own.stride(), start)
        return True


def _same_width(states: Sequence[torch.Tensor]) -> bool:
    return states[0].shape[2] == states[-1].shape[2]  # not projected


def _reach(tensor: torch.Tensor) -> int:
    """How many elements of memory lie between the first and the last."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


class _Given:
    """Operands and results, while a backward runs.

    Autograd's nodes hold it, and nobody sees a cycle through these: it must not hold the nodes.
    """

    def __init__(self) -> None:
        self.tensors: Sequence[torch.Tensor] = ()

    def unpacked(self, place: _Place) -> torch.Tensor:
        if place.tensor is not None:
            return place.tensor
        sizes, strides, start = place.where
        whole = self.tensors[place.number]
        return whole.as_strided(sizes, strides, whole.storage_offset() + start)


class _Graph:
    """What autograd knows of one call, without the tensors that the backward is given.

    `lasting`: nobody uses the memory of the parameters for something else; `keeps`: the backward is
    given the first result as well.
    """

    def __init__(
        self,
        layers: Layers,
        batch_sizes: Any,
        operands: Sequence[Any],
        count: int,
        lasting: bool,
        keeps: bool,
        wanted: Any,
    ) -> None:
        self._given = given = _Given()
        self._lock = threading.Lock()
        places: list[_Place] = []

        def pack(tensor: torch.Tensor) -> _Place:
            places.append(_Place(tensor))
            return places[-1]

        # Of kernels for a whole sequence, autograd saves a few tensors; of steps, many: then it is
        # cheaper to let it save them as usual, and have copies of what is not sure to last.
        one = layers.kind == "lstm" and not layers.packed and _same_width(operands[1:3])
        self._copies = not one and operands[0].device.type == "cpu"
        self._leaves = [
            (each.clone() if self._copies and (number <= count or not lasting) else each.detach())
            .detach()
            .requires_grad_(want)
            for number, (each, want) in enumerate(zip(operands, wanted, strict=True))
        ]
        data, *others = self._leaves
        hooks = (
            contextlib.nullcontext() if self._copies else saved_tensors_hooks(pack, given.unpacked)
        )
        with _autograd(), hooks:
            found = layers.run(data, batch_sizes, others[:count], others[count:])
        # What is held of the results is where they were computed, not the tensors.
        self._edges = [torch.autograd.graph.get_gradient_edge(each) for each in found]
        self.results = _steps_first(layers, [each.detach() for each in found])
        self._layouts: list[tuple[Any, Any]] = []
        if self._copies:
            if layers.packed and layers.kind == "lstm":  # it may be a kernel's that needs it
                self.results[0] = self.results[0].clone()
            return
        known = self.results[:1] if keeps else []  # the backward is given these
        wholes = [each.detach() for each in (*operands, *known)]
        self._layouts = [(each.shape, each.stride()) for each in wholes]
        owners: dict[int, list[tuple[int, torch.Tensor]]] = {}
        for number, whole in enumerate(wholes):
            owners.setdefault(whole.untyped_storage()._cdata, []).append((number, whole))
        for place in places:
            assert place.tensor is not None
            for number, whole in owners.get(place.tensor.untyped_storage()._cdata, ()):
                if place.is_in(number, whole):
                    break
        held = {each.tensor.untyped_storage()._cdata for each in places if each.tensor is not None}
        self.results = [
            each.clone() if each.untyped_storage()._cdata in held else each for each in self.results
        ]

    def gradients(self, given: Sequence[torch.Tensor], grads: Sequence[Any]) -> list[Any]:
        """By those operands that a gradient is wanted for; `given`: operands and results."""
        pairs = [
            (result, grad)
            for result, grad in zip(self._edges, grads, strict=True)
            if grad is not None
        ]
        leaves = [each for each in self._leaves if each.requires_grad]
        if not pairs:
            return [None] * len(leaves)
        with self._lock:
            self._given.tensors = [
                _laid_out(each.detach(), *layout)
                for each, layout in zip(given, self._layouts, strict=not self._copies)
            ]
            try:
                found = torch.autograd.grad(
                    [result for result, _ in pairs],
                    leaves,
                    [grad for _, grad in pairs],
                    retain_graph=True,
                    allow_unused=True,
                )
            finally:
                self._given.tensors = ()
        return list(found)


@contextlib.contextmanager
def _autograd() -> Iterator[None]:
    """Autograd at work, also below AOTAutograd, which takes it away from operators."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _steps_first(layers: Layers, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of the operator: contiguous, and the steps are the first dimension."""
    first, *others = results
    first = first.transpose(0, 1) if layers.batch_first else first
    return [each.contiguous() for each in (first, *others)]


def _laid_out(tensor: torch.Tensor, sizes: Any, strides: Any) -> torch.Tensor:
    if tensor.stride() == strides:
        return tensor
    return tensor.new_empty_strided(sizes, strides).copy_(tensor)


@contextlib.contextmanager
def _lower(device: str, lower: str | None) -> Iterator[None]:
    """Autocast as it was where the program called the layer."""
    if lower is None and not torch.is_autocast_enabled(device):
        yield
        return
    dtype = None if lower is None else getattr(torch, lower)
    with torch.autocast(device, dtype, enabled=lower is not None, cache_enabled=False):
        yield


def _forward(
    kind: str, data: Any, batch_sizes: Any, states: Any, params: Any, *rest: Any
) -> list[torch.Tensor]:
    *rest, keeps, lower, wanted = rest  # type: ignore[assignment]
    layers = _layers(kind, batch_sizes, rest)
    with _lower(data.device.type, lower):
        if not any(wanted):
            with torch.no_grad():
                return _steps_first(layers, layers.run(data, batch_sizes, states, params))
        state = torch.get_rng_state() if layers.draws else torch.empty(0, dtype=torch.uint8)
        operands = (data, *states, *params)
        graph = _Graph(layers, batch_sizes, operands, len(states), rest[7], keeps, wanted)
    results, graph.results = graph.results, []
    storage: Any = state.untyped_storage()
    storage.stator_graph = graph
    return [*results, state]


def _backward(
    kind: str, data: Any, batch_sizes: Any, states: Any, params: Any, *rest: Any
) -> list[torch.Tensor]:
    *rest, keeps, lower, wanted, results, kept, grads = rest  # type: ignore[assignment]
    operands = (data, *states, *params)
    graph = getattr(kept.untyped_storage(), "stator_graph", None)
    if graph is None:
        more = (keeps, lower, wanted, kept)
        graph = _again(kind, batch_sizes, operands, len(states), rest, *more)
    layers = _layers(kind, batch_sizes, rest)
    if layers.batch_first and grads[0] is not None:
        grads = [grads[0].transpose(0, 1), *grads[1:]]
    found = iter(graph.gradients((*operands, *results), grads))
    return [
        _like(operand, next(found)) for operand, want in zip(operands, wanted, strict=True) if want
    ]


def _again(
    kind: str,
    batch_sizes: Any,
    operands: Sequence[Any],
    count: int,
    rest: Sequence[Any],
    keeps: bool,
    lower: Any,
    wanted: Any,
    kept: torch.Tensor,
) -> _Graph:
    layers = _layers(kind, batch_sizes, rest)
    device = operands[0].device.type
    if layers.draws and device != "cpu":
        raise RuntimeError(f"what {kind} with dropout has saved for the backward was lost")
    with torch.random.fork_rng(devices=()), _lower(device, lower):
        if layers.draws:
            torch.set_rng_state(kept.cpu())
        return _Graph(layers, batch_sizes, operands, count, rest[7], keeps, wanted)


def _like(operand: torch.Tensor, grad: torch.Tensor | None) -> torch.Tensor:
    """A gradient, in memory as the fake kernel says."""
    if grad is None:
        return torch.zeros_like(operand)
    found = torch.empty_like(operand)
    if grad.dtype is found.dtype and grad.stride() == found.stride():
        return grad.detach()
    return found.copy_(grad)


# ------------------------------------------------------------------ the kernels on fake tensors


def _shapes(
    kind: str, data: Any, batch_sizes: Any, states: Any, params: Any, *rest: Any
) -> list[torch.Tensor]:
    wanted = rest[-1]
    layers = _layers(kind, batch_sizes, rest)
    dtypes = rest[6]
    width = states[0].shape[2] * layers.directions
    first = data.shape[:-1] if not layers.batch_first else (data.shape[1], data.shape[0])
    sizes = ((*first, width), *(each.shape for each in states))
    made = [
        data.new_empty(shape, dtype=getattr(torch, dtype))
        for shape, dtype in zip(sizes, dtypes, strict=True)
    ]
    if any(wanted):
        state = _STATE if layers.draws else 0
        made.append(torch.empty(state, dtype=torch.uint8, device="cpu"))
    return made


def _shapes_of_gradients(
    kind: str, data: Any, batch_sizes: Any, states: Any, params: Any, *rest: Any
) -> list[torch.Tensor]:
    wanted = rest[-4]
    operands = zip((data, *states, *params), wanted, strict=True)
    return [torch.empty_like(each) for each, want in operands if want]


_LIBRARY.impl("recurrent", _recurrent, "CompositeImplicitAutograd")
for _name, _kernel, _fake in (
    ("recurrent_forward", _forward, _shapes),
    ("recurrent_drawing", _forward, _shapes),
    ("recurrent_backward", _backward, _shapes_of_gradients),
):
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    _library.register_fake(f"stator::{_name}", _fake, lib=_LIBRARY)

RECURRENT: Final = torch.ops.stator.recurrent.default
_FORWARD: Final = torch.ops.stator.recurrent_forward.default
_DRAWING: Final = torch.ops.stator.recurrent_drawing.default
_BACKWARD: Final = torch.ops.stator.recurrent_backward.default

__all__ = ["RECURRENT"]
