"""Tensors where optimizers have numbers when they are not compiled.

Stage: capture. In: calls that optimizers make only while they are compiled: of `_get_value`, for
the number of steps, and of operators that take numbers (`x.addcdiv_(a, b, value=t)`). Out: nodes
that compute what Python's floats and these operators would, rounded as often, in the same order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.calls.python_calls import evaluated
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import foreach_add_, foreach_addcdiv_, foreach_div, foreach_mul
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.tracers import optimizer_value
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.tensors.tensors import Tensors

# In these, each operation of the kernels rounds. Others are computed in float32.
_EXACT: Final = frozenset({torch.float32, torch.float64})
WRITTEN_OUT: Final = frozenset({"addcdiv_", "_foreach_addcdiv_"})  # by name, for `written_out`


def written_out(
    tensors: "Tensors", frame: Frame | None, target: Any, args: Any, kwargs: Any
) -> Any:
    """What the operator answers, if it is one of these; else MISSING."""
    if len(args) == 3 and target == ("method", "addcdiv_"):
        place, over, under = args
        number = (kwargs or {}).get("value")
        if not _can_be_written([place, over, under], number, 0):
            return MISSING
        scaled = tensors.record(frame, torch.mul, (over, number))
        scaled = tensors.record(frame, torch.div, (scaled, under))
        return tensors.record(frame, ("method", "add_"), (place, scaled))
    if len(args) == 4 and target is foreach_addcdiv_:
        places, over, under, numbers = args
        if not _can_be_written([*places, *over, *under], numbers, 1):
            return MISSING
        each = list(tensors.record(frame, torch.unbind, (numbers,)))
        scaled = tensors.record(frame, foreach_mul, (over, each))
        scaled = tensors.record(frame, foreach_div, (scaled, under))
        return tensors.record(frame, foreach_add_, (places, scaled))
    return MISSING


def _can_be_written(operands: Sequence[torch.Tensor], number: Any, dim: int) -> bool:
    if type(number) is not FakeTensor:
        return False
    with DisableTorchFunction():
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in (*operands, number))
        kinds = {tensor.dtype for tensor in operands}
        return not tracked and number.dim() == dim and len(kinds) == 1 and kinds <= _EXACT


def _get_value(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What an optimizer reads with `item()`: a float of Python has 64 bits."""
    if len(args) == 1 and not kwargs and type(args[0]) is FakeTensor:
        return calls.tensors.record(frame, ("method", "double"), (args[0],))
    return evaluated(calls, frame, function, args, kwargs)


NUMBER_TENSORS: Final[dict[int, Any]] = {id(optimizer_value): _get_value}
