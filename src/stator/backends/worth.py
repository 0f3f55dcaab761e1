"""Whether Inductor could make a graph faster than torch's own kernels are.

In: a recorded graph. Out: why it is to run by its own operators, as eager does; None if Inductor is
to compile it. That takes seconds, and where nothing can be fused, it calls the kernels that eager
calls; around a recurrent layer it even is slower, since the backward of that is an operator
in Python then. So a graph runs as it is

- if it has nothing but kernels that Inductor calls as they are, views, and a lookup (`_KERNELS`),
- or if *opaque* kernels take nearly all of its time: recurrent layers, and operators of
  quantization that observe what they get. The rest could become faster, but not the whole.

This is decided with the sizes of the call that is compiled. Times are those of one thread, forward,
measured; what might be gained is rounded up, what can't be is rounded down. Graphs with regions,
with autocast, or on other devices than the CPU are always compiled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.recurrent import GATES, KINDS, Call, bound
from stator.torchlib.modes import is_any_autocast_enabled

from .recurrent import FEW

NOTHING: Final = "there is nothing in it to fuse"
OPAQUE: Final = "nearly all of its time is spent in {}, which Inductor calls as they are"

_WORTH: Final = 0.2  # of the time of opaque kernels: what less than that gains, nobody sees
_BYTES: Final = 8e3  # that are written in a microsecond
_NUMBERS: Final = 40e3  # multiplications in a microsecond
_CALL: Final = 3.0  # of an operator
_COMPOSITE: Final = 2  # operators that a function in Python may stand for
# What AOTAutograd does in each call of a graph that has a backward: a fixed part, and per input.
_AROUND: Final = 40.0
_INPUT: Final = 0.5
_FEW_BYTES: Final = 65536  # for which two lookups are as good as one

_STEP: Final = {"lstm": 6.0, "gru": 20.0, "rnn_tanh": 6.0, "rnn_relu": 6.0}  # of one layer
# name -> microseconds, and how often the data is gone through
_OPAQUE: Final[Mapping[str, tuple[float, float]]] = {
    "fused_moving_avg_obs_fake_quant": (15.0, 6.0),
    "_fused_moving_avg_obs_fq_helper": (15.0, 6.0),
}
_OBSERVING: Final = "operators that observe what they get"
_RECURRENT: Final = "recurrent layers"
_VIEWS: Final = frozenset(
    [
        "T",
        "chunk",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "getattr",
        "getitem",
        "movedim",
        "mT",
        "narrow",
        "numel",
        "permute",
        "ravel",
        "select",
        "size",
        "split",
        "squeeze",
        "swapaxes",
        "sym_size",
        "sym_size.int",
        "t",
        "tensor_split",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
_KERNELS: Final = frozenset({"argsort", "linear", "sort"})
_LOOKUPS: Final = frozenset({"embedding", "index_select"})
# Kernels, too, but Inductor may have them run on other layouts, or write small ones itself.
_USUALLY_KERNELS: Final = frozenset(
    {"addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "matmul", "mm"}
)


def own_operators(module: fx.GraphModule) -> str | None:
    """Why a graph is to run by its own operators; None if Inductor is to compile it."""
    nodes = [node for node in module.graph.nodes if node.op.startswith("call_")]
    if is_any_autocast_enabled() or any(True for _ in module.children()):
        return None
    if any(node.op == "call_module" for node in nodes) or not _on_cpu(module):
        return None
    costs = _Costs()
    for node in nodes:
        costs.add(node)
    if costs.opaque:
        gain = costs.gain - (_AROUND + _INPUT * _inputs(module) if _is_trained(module) else 0.0)
        if gain < _WORTH * costs.fixed:
            return OPAQUE.format(" and ".join(sorted(costs.opaque)))
        return None
    return NOTHING if costs.kernels and not costs.others and _is_one(costs) else None


def _is_one(costs: "_Costs") -> bool:
    """Whether there are no two lookups that would be worth to be one."""
    return costs.lookups <= 1 or costs.looked_up <= _FEW_BYTES


@dataclass
class _Costs:
    """What there is in a graph, in microseconds."""

    gain: float = 0.0
    """Of what Inductor might make nothing of."""
    fixed: float = 0.0
    """Of opaque kernels."""
    opaque: set[str] = field(default_factory=set)
    """What these are."""
    kernels: int = 0
    lookups: int = 0
    looked_up: float = 0.0  # bytes
    others: int = 0
    """Operators that may be fused."""

    def add(self, node: fx.Node) -> None:
        name = _name(node)
        size = _bytes(node)
        call = bound(node.target, node.args, node.kwargs) if node.target in KINDS else None
        if call is not None and (count := _steps(call)) > FEW:
            self.opaque.add(_RECURRENT)
            self.fixed += count * (_STEP[call.layers.kind] + _multiplications(call) / _NUMBERS)
        elif name in _OPAQUE:
            time, passes = _OPAQUE[name]
            self.opaque.add(_OBSERVING)
            self.fixed += time + passes * size / _BYTES
        elif name in _VIEWS and _is_plain(node):
            self.gain += 1.0
        elif name in _KERNELS:
            self.kernels += 1
        elif name in _LOOKUPS or (name == "getitem" and size <= _FEW_BYTES):
            self.gain += _CALL + size / _BYTES
            self.kernels += 1
            self.lookups += 1
            self.looked_up += size
        else:
            self.others += 1
            if name not in _USUALLY_KERNELS:
                several = _COMPOSITE if type(node.target) is FunctionType else 1
                self.gain += several * (_CALL + size / _BYTES)


def _name(node: fx.Node) -> str:
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")).removesuffix(".default")


def _is_plain(node: fx.Node) -> bool:
    """Whether an item is asked for by numbers: by a tensor, it would be a lookup."""
    return not any(
        isinstance(each.meta.get("example_value"), torch.Tensor)
        for each in node.all_input_nodes[1:]
    )


def _steps(call: Call) -> int:
    """In all layers and directions; 0 if that is not known."""
    layers = call.layers
    given = _value(call.batch_sizes if layers.packed else call.data)
    if given is None:
        return 0
    length = given.shape[1 if layers.batch_first and not layers.packed else 0]
    return _number(length) * layers.num_layers * layers.directions


def _multiplications(call: Call) -> float:
    """Of one step of one layer, at least."""
    state = _value(call.states[0])
    if state is None:
        return 0.0
    batch, width = _number(state.shape[1]), _number(state.shape[2])
    return float(2 * batch * width * width * GATES[call.layers.kind])


def _bytes(node: fx.Node) -> float:
    """What a node writes."""
    made = node.meta.get("example_value")
    found = made if isinstance(made, tuple | list) else (made,)
    return sum(
        _product(each.shape) * each.element_size()
        for each in found
        if isinstance(each, torch.Tensor) and each.layout is torch.strided
    )


def _product(sizes: Any) -> float:
    total = 1.0
    for size in sizes:
        total *= _number(size)
    return total


def _number(size: Any) -> int:
    """A size in the call that is compiled; some number, if only a run knows it."""
    if type(size) is int:
        return size
    hint = size.node.hint if size.node.has_hint() else None
    return hint if type(hint) is int else 64


def _value(node: Any) -> torch.Tensor | None:
    found = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return found if isinstance(found, torch.Tensor) else None


def _tensors(module: fx.GraphModule) -> Iterator[torch.Tensor]:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


def _on_cpu(module: fx.GraphModule) -> bool:
    return all(each.device.type == "cpu" for each in _tensors(module))


def _is_trained(module: fx.GraphModule) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in _tensors(module))


def _inputs(module: fx.GraphModule) -> int:
    return sum(node.op == "placeholder" for node in module.graph.nodes)
