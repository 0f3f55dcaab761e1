"""Recurrent layers on fake tensors: one step to the result, however long the sequence is.

In: a call of `torch.lstm`, `torch.gru` and the like on fake tensors. Out: fake results; None if the
call is none of the plain ones, which torch's own code then carries out, or refuses. torch's code
makes a few tensors for each step of the sequence, and needs a number of steps for that: the length
would be fixed, and of a packed sequence each step has an unknown size.

The sizes of results follow from those of the arguments. The rest (in which order their dimensions
lie in memory, dtype, whether they are views, what their grad_fn is called) depends on the kernel
that torch chooses: it is asked once for each kind of call, with real tensors of a few numbers.
"""

import functools
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from stator.graph.fakes.memory import expression
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.operators import OpOverload, OpOverloadPacket
from stator.torchlib.settings import mkldnn_enabled, set_mkldnn_enabled
from stator.torchlib.tensors import DisableTorchFunction

RECURRENT: Final = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})  # their names
KINDS: Final[Mapping[Any, str]] = {
    target: name
    for name in RECURRENT
    for packet in [getattr(torch.ops.aten, name)]
    for target in (getattr(torch, name), packet, packet.input, packet.data)
}
GATES: Final[Mapping[str, int]] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_TORCHS: Final = (types.BuiltinFunctionType, OpOverload, OpOverloadPacket)
_INPUT: Final = ("input", "hx", "params")
_DATA: Final = ("data", "batch_sizes", "hx", "params")  # of a packed sequence
_REST: Final = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_TYPES: Final = (bool, int, float, bool, bool, bool)
_MKLDNN: Final = "MkldnnRnnLayerBackward0"


@dataclass(frozen=True)
class Layers:
    """What a call says besides tensors."""

    kind: str
    packed: bool
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def draws(self) -> bool:
        """Whether random numbers are drawn."""
        return self.train and self.dropout > 0 and self.num_layers > 1

    @property
    def function(self) -> Any:
        return getattr(torch, self.kind)

    def run(self, data: Any, batch_sizes: Any, states: Sequence[Any], params: Any) -> Any:
        """torch's own function: the results, and the last states."""
        hx = tuple(states) if self.kind == "lstm" else states[0]
        rest = (self.has_biases, self.num_layers, self.dropout, self.train, self.bidirectional)
        if self.packed:
            return self.function(data, batch_sizes, hx, list(params), *rest)
        return self.function(data, hx, list(params), *rest, self.batch_first)


@dataclass(frozen=True)
class Call:
    """A call, with its tensors (or their nodes) sorted out."""

    layers: Layers
    data: Any
    batch_sizes: Any
    states: Sequence[Any]
    params: Sequence[Any]


def bound(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """The call, if it is written in one of the usual ways."""
    kind = KINDS.get(target) if isinstance(target, _TORCHS) else None
    packed = "batch_sizes" in kwargs or (len(args) > 3 and not isinstance(args[3], bool))
    tensors, rest = (_DATA, _REST[:-1]) if packed else (_INPUT, _REST)
    names = (*tensors, *rest)
    if kind is None or len(args) + len(kwargs) != len(names):
        return None
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.keys() != set(names):
        return None
    for name, wanted in zip(_REST, _TYPES, strict=True):
        if name in given and type(given[name]) is not wanted and type(given[name]) is not int:
            return None
    states = given["hx"] if kind == "lstm" else (given["hx"],)
    if not isinstance(states, tuple | list) or not isinstance(given["params"], tuple | list):
        return None
    layers = Layers(
        kind,
        packed,
        bool(given["has_biases"]),
        given["num_layers"],
        float(given["dropout"]),
        bool(given["train"]),
        bool(given["bidirectional"]),
        bool(given.get("batch_first", False)),
    )
    data = given["data" if packed else "input"]
    return Call(layers, data, given.get("batch_sizes"), states, given["params"])


def recurrent_results(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The fake results of a plain call; None for any other."""
    call = bound(target, args, kwargs)
    if call is None or not _is_plain(call):
        return None
    operands = (call.data, *call.states, *call.params)
    trained = torch.is_grad_enabled() and any(each.requires_grad for each in operands)
    layers, data = call.layers, call.data
    projected = expression(call.states[0].shape[2]) != expression(call.states[-1].shape[2])
    length, batch = (2, 2) if layers.packed else _few(layers, data.shape)
    known = _looks(layers, data.dtype, projected, trained, length, batch, _state())
    if known is None:
        return None
    width = call.states[0].shape[2] * layers.directions
    sizes = [(*data.shape[:-1], width), *(each.shape for each in call.states)]
    kernel = layers.kind == "lstm" and (known[0].is_view or known[0].grad_fn == _MKLDNN)
    results = []
    for number, (look, size) in enumerate(zip(known, sizes, strict=True)):
        keeps = kernel and number == 0 and not layers.bidirectional
        result = _named(look.grad_fn).apply(look, size, keeps, *operands)
        results.append(result.transpose(0, 1) if look.is_view else result)
    return tuple(results)


def _few(layers: Layers, shape: Sequence[Any]) -> tuple[int, int]:
    """A length and a number of sequences, to stand for these: one, or several."""
    length, batch = shape[:2] if not layers.batch_first else (shape[1], shape[0])
    return _one_or_two(length), _one_or_two(batch)


def _one_or_two(size: Any) -> int:
    return 1 if type(size) is int and size == 1 else 2


# ------------------------------------------------------------------ which calls are plain


def _is_plain(call: Call) -> bool:
    """Whether torch carries the call out, as far as can be told from sizes and types."""
    layers, data = call.layers, call.data
    tensors = (data, *call.states, *call.params)
    if not all(_is_simple(each, data.dtype) for each in tensors):
        return False
    if layers.packed:
        sizes = call.batch_sizes
        if type(sizes) is not FakeTensor or sizes.dim() != 1 or sizes.dtype is not torch.int64:
            return False
    if data.dim() != (2 if layers.packed else 3) or layers.num_layers < 1:
        return False
    if len(call.states) != (2 if layers.kind == "lstm" else 1):
        return False
    if any(type(size) is int and size == 0 for size in data.shape):
        return False
    return _states_fit(call) and _weights_fit(call)


def _is_simple(tensor: Any, dtype: torch.dtype) -> bool:
    return (
        isinstance(tensor, FakeTensor)
        and tensor.dtype is dtype
        and dtype.is_floating_point
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_neg()
    )


def _states_fit(call: Call) -> bool:
    layers = call.layers
    count = layers.num_layers * layers.directions
    if any(each.dim() != 3 or not _same(each.shape[0], count) for each in call.states):
        return False
    if not layers.packed:
        batch = call.data.shape[0 if layers.batch_first else 1]
        return all(_same(each.shape[1], batch) for each in call.states)
    return all(_same(each.shape[1], call.states[0].shape[1]) for each in call.states)


def _weights_fit(call: Call) -> bool:
    layers = call.layers
    width, hidden = call.states[0].shape[2], call.states[-1].shape[2]
    if type(width) is not int or type(hidden) is not int or not 0 < width <= hidden:
        return False
    rows = GATES[layers.kind] * hidden
    expected: list[tuple[Any, ...]] = []
    given = call.data.shape[-1]
    for _ in range(layers.num_layers):
        for _ in range(layers.directions):
            expected += [(rows, given), (rows, width)]
            expected += [(rows,), (rows,)] if layers.has_biases else []
            expected += [(width, hidden)] if width != hidden else []
        given = width * layers.directions
    return len(expected) == len(call.params) and all(
        len(sizes) == each.dim() and all(map(_same, each.shape, sizes))
        for sizes, each in zip(expected, call.params, strict=True)
    )


def _same(size: Any, other: Any) -> bool:
    """Whether two sizes are equal; nothing is assumed of those that only a run knows."""
    if expression(size) == expression(other):
        return True
    for each in (size, other):
        if isinstance(each, torch.SymInt) and not each.node.has_hint():
            return False
    return bool(size == other)


# ------------------------------------------------------------------ what torch makes of such calls


@dataclass(frozen=True)
class Look:
    """What is not in the sizes of a result."""

    dtype: torch.dtype
    transposed: bool
    """In memory, its second dimension comes first."""
    is_view: bool
    grad_fn: str


def _state() -> tuple[Any, ...]:
    """What torch's choice depends on, besides the call."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        mkldnn_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )


@functools.lru_cache(maxsize=256)
def _looks(
    layers: Layers,
    dtype: torch.dtype,
    projected: bool,
    trained: bool,
    length: int,
    batch: int,
    state: tuple[Any, ...],
) -> tuple[Look, ...] | None:
    """The results of such a call on real tensors; None if one of them is unlike all known ones."""
    hidden, given = 3, 2
    width = 2 if projected else hidden
    rows = GATES[layers.kind] * hidden
    before = mkldnn_enabled()
    with disable_current_modes(), DisableTorchFunction(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zeros = functools.partial(torch.zeros, dtype=dtype, device="cpu")
        params: list[torch.Tensor] = []
        for layer in range(layers.num_layers):
            size = given if layer == 0 else width * layers.directions
            for _ in range(layers.directions):
                params += [zeros(rows, size), zeros(rows, width)]
                params += [zeros(rows), zeros(rows)] if layers.has_biases else []
                params += [zeros(width, hidden)] if projected else []
        count = layers.num_layers * layers.directions
        widths = (width, hidden) if layers.kind == "lstm" else (hidden,)
        states = [zeros(count, batch, each) for each in widths]
        shape = (batch, length) if layers.batch_first else (length, batch)
        data = zeros(3, given) if layers.packed else zeros(*shape, given)
        # Of different lengths: where all are the same, torch may take a kernel for dense data.
        sizes = torch.tensor((2, 1), device="cpu") if layers.packed else None
        if trained:
            for each in params:
                each.requires_grad_()
        try:
            with torch.random.fork_rng(devices=()):
                # torch warns, once in a process, that oneDNN knows no projections.
                set_mkldnn_enabled(before and not projected)
                found = layers.run(data, sizes, states, params)
        except RuntimeError:
            return None
        finally:
            set_mkldnn_enabled(before)
        looks = tuple(map(_look, found))
    return None if any(each is None for each in looks) else looks  # type: ignore[return-value]


def _look(result: torch.Tensor) -> Look | None:
    width = result.shape[-1]
    if result.is_contiguous():
        transposed = False
    elif result.dim() == 3 and result.stride() == (width, result.shape[0] * width, 1):
        transposed = True
    else:
        return None
    name = type(result.grad_fn).__name__ if result.grad_fn is not None else ""
    is_view = result._is_view()
    if is_view and name != "TransposeBackward0" and name:
        return None
    return Look(result.dtype, transposed, is_view and bool(name), name)


class _Made(torch.autograd.Function):
    """A new fake that is differentiable by all operands, as a real call's result is."""

    @staticmethod
    def forward(ctx: Any, look: Look, sizes: Sequence[Any], keeps: bool, *operands: Any) -> Any:
        first, second = sizes[:2]
        if look.is_view:
            result = operands[0].new_empty((second, first, *sizes[2:]), dtype=look.dtype)
        elif look.transposed:
            strides = (sizes[2], first * sizes[2], 1)
            result = operands[0].new_empty_strided(sizes, strides, dtype=look.dtype)
        else:
            result = operands[0].new_empty(sizes, dtype=look.dtype)
        # What the program must not change before the backward. Only oneDNN's kernel needs biases.
        ctx.save_for_backward(
            *((*operands, result) if keeps else [each for each in operands if each.dim() > 1])
        )
        ctx.given = [(each.shape, each.dtype) for each in operands]
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        like = ctx.saved_tensors[0]  # refuses a second time
        needed = zip(ctx.given, ctx.needs_input_grad[3:], strict=True)
        found = [
            like.new_empty(sizes, dtype=dtype) if need else None for (sizes, dtype), need in needed
        ]
        return (None, None, None, *found)


@functools.cache
def _named(grad_fn: str) -> Any:
    """A function whose results name this grad_fn."""
    kind = type("Recurrent", (_Made,), {})
    kind._backward_cls.__name__ = grad_fn  # type: ignore[attr-defined]
    return kind


__all__ = ["KINDS", "RECURRENT", "Call", "Layers", "bound", "recurrent_results"]
