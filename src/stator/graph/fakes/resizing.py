"""Operators that give their arguments another size, though nothing in their names says so.

In: a call. Out: whether it will. torch's schemas tell that these operators write to arguments, not
that they resize them: fake kernels don't, and what makes a graph functional writes the new values
back into memory of the old size. `resize_` and the like are not meant: their fakes follow.

Observers find their buffers empty once, in the first call. That runs as a whole: graphs of parts of
it would never be used again.

The fakes of functions with `out=` follow, too. Not so those of many *operators* (`torch.ops`): all
that torch writes by itself copy into what they are given. What size the result should have is asked
of the operator's twin without `out`.

`tests/graph/test_resizing.py` has all operators that write to arguments other than the first and
`out`, and calls all others to see which sizes they change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from stator.graph.fakes.inputs import tensors_in
from stator.torchlib.operators import OpOverload, OpOverloadPacket

_MOVING_AVERAGE: Final = (
    "input",
    "observer_on",
    "fake_quant_on",
    "running_min",
    "running_max",
    "scale",
    "zero_point",
    "averaging_const",
    "quant_min",
    "quant_max",
    "ch_axis",
    "per_row_fake_quant",
)


def _moving_average(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """With a range per channel: the ranges are empty at first, and there is one scale."""
    given = {**dict(zip(_MOVING_AVERAGE, args, strict=False)), **kwargs}
    if not given.get("per_row_fake_quant"):
        return False
    tensor: Any = given.get("input", kwargs.get("self"))
    channels = tensor.shape[given["ch_axis"]]
    kept = (given[name] for name in ("running_min", "running_max", "scale", "zero_point"))
    return any(each.dim() != 1 or each.shape[0] != channels for each in kept)


RESIZING: Final[Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], bool]]] = {
    "fused_moving_avg_obs_fake_quant": _moving_average,
    "_fused_moving_avg_obs_fq_helper": _moving_average,
}
"""By name of the function: whether a call of it resizes arguments."""

RESIZED_AS: Final = frozenset({"resize_as_", "resize_as_.default"})
"""Recorded as `resize_`: of this one, AOTAutograd forgets that an input is smaller afterwards."""


@dataclass(frozen=True)
class Outs:
    """The arguments of an operator that its results are written to."""

    names: tuple[str, ...]
    twin: OpOverload | None
    """The same operator without them."""

    @classmethod
    def of(cls, target: OpOverload | OpOverloadPacket, kwargs: Mapping[str, Any]) -> "Outs | None":
        """None if the call has no such arguments."""
        packet = target.overloadpacket if isinstance(target, OpOverload) else target
        overloads = [getattr(packet, name) for name in packet.overloads()]
        for overload in [target] if isinstance(target, OpOverload) else overloads:
            names = tuple(each.name for each in overload._schema.arguments if each.is_out)
            if names and all(name in kwargs for name in names):
                return cls(names, _without(overload, names, overloads))
        return None

    def fit(self, wanted: Sequence[torch.Tensor], kwargs: Mapping[str, Any]) -> bool:
        """Whether they have the sizes that results should have."""
        given = list(tensors_in([kwargs[name] for name in self.names]))
        return len(given) == len(wanted) and all(
            len(one.shape) == len(two.shape) and all(map(_is_same, one.shape, two.shape))
            for one, two in zip(given, wanted, strict=True)
        )


def _without(
    overload: OpOverload, names: Sequence[str], others: Sequence[OpOverload]
) -> OpOverload | None:
    kept = [(e.name, str(e.type)) for e in overload._schema.arguments if e.name not in names]
    for other in others:
        arguments = [(each.name, str(each.type)) for each in other._schema.arguments]
        if arguments == kept and not other._schema.is_mutable:
            return other
    return None


def _is_same(one: Any, two: Any) -> bool:
    if type(one) is int and type(two) is int:
        return one == two
    symbolic = type(one) is torch.SymInt and type(two) is torch.SymInt
    return symbolic and bool(one.node.expr == two.node.expr)
