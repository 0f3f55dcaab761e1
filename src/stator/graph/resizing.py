"""Operators that give their arguments another size, though nothing in their names says so.

In: a call. Out: whether it will. torch's schemas tell that these operators write to arguments, not
that they resize them: fake kernels don't, and what makes a graph functional writes the new values
back into memory of the old size. `resize_`, `out=` and the like are not meant: their fakes follow.

`tests/graph/test_resizing.py` has all operators that write to arguments other than the first and
`out`, and calls those of torch's database to see which sizes they change.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

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
