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

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Final

import torch.fx as fx

from stator.graph.fakes.packed import PACKED
from stator.graph.fakes.recurrent import KINDS, bound

from .estimates import (
    BYTES,
    FEW_STEPS,
    NUMBERS,
    STEP,
    VIEWS,
    bytes_of,
    inputs_of,
    is_item,
    is_plain,
    is_trained,
    makes_tensors,
    multiplications,
    name_of,
    steps_of,
)

NOTHING: Final = "there is nothing in it to fuse"
OPAQUE: Final = "nearly all of its time is spent in {}, which Inductor calls as they are"

_WORTH: Final = 0.2  # of the time of opaque kernels: what less than that gains, nobody sees
_CALL: Final = 3.0  # of an operator
_COMPOSITE: Final = 2  # operators that a function in Python may stand for
# What AOTAutograd does in each call of a graph that has a backward: a fixed part, and per input.
_AROUND: Final = 40.0
_INPUT: Final = 0.5
_FEW_BYTES: Final = 65536  # for which two lookups are as good as one

# name -> microseconds, and how often the data is gone through
_OPAQUE: Final[Mapping[str, tuple[float, float]]] = {
    "fused_moving_avg_obs_fake_quant": (15.0, 6.0),
    "_fused_moving_avg_obs_fq_helper": (15.0, 6.0),
}
_OBSERVING: Final = "operators that observe what they get"
_RECURRENT: Final = "recurrent layers"
_KERNELS: Final = frozenset({"argsort", "linear", "sort"})
_LOOKUPS: Final = frozenset({"embedding", "index_select"})
# Kernels, too, but Inductor may have them run on other layouts, or write small ones itself.
_USUALLY_KERNELS: Final = frozenset(
    {"addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "matmul", "mm", *PACKED}
)


def own_operators(module: fx.GraphModule) -> str | None:
    """Why a graph is to run by its own operators; None if Inductor is to compile it."""
    if not is_plain(module):
        return None
    costs = _Costs()
    for node in module.graph.nodes:
        if node.op.startswith("call_"):
            costs.add(node)
    if costs.opaque:
        gain = costs.gain - (_AROUND + _INPUT * inputs_of(module) if is_trained(module) else 0.0)
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
        name = name_of(node)
        size = bytes_of(node)
        call = bound(node.target, node.args, node.kwargs) if node.target in KINDS else None
        if call is not None and (count := steps_of(call)) > FEW_STEPS:
            self.opaque.add(_RECURRENT)
            self.fixed += count * (STEP[call.layers.kind] + multiplications(call) / NUMBERS)
        elif name in _OPAQUE:
            time, passes = _OPAQUE[name]
            self.opaque.add(_OBSERVING)
            self.fixed += time + passes * size / BYTES
        elif not makes_tensors(node):
            pass  # numbers, and checks of them
        elif name in VIEWS and is_item(node):
            self.gain += 1.0
        elif name in _KERNELS:
            self.kernels += 1
        elif name in _LOOKUPS or (name == "getitem" and size <= _FEW_BYTES):
            self.gain += _CALL + size / BYTES
            self.kernels += 1
            self.lookups += 1
            self.looked_up += size
        else:
            self.others += 1
            if name not in _USUALLY_KERNELS:
                several = _COMPOSITE if type(node.target) is FunctionType else 1
                self.gain += several * (_CALL + size / BYTES)
