"""Hooks that a module calls in the backward: how it sets them up in its forward.

Stage: capture. In: torch's own calls in `nn.Module._call_impl` that set up full backward hooks.
Out: a break before such a call, which then runs as it is: it hooks a node of the autograd graph,
and nobody else's code runs meanwhile. Inside of it, the graph would break several times. Where no
tensor needs gradients it does nothing, and is evaluated as any other code.
"""

from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.diagnostics.catalogue import AutogradInside
from stator.torchlib.autograd import BackwardHook
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.builtin_calls import Handler
    from stator.capture.calls.calls import Calls

REASON: Final = "a module has full backward hooks"


def _set_up(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`hook.setup_input_hook(args)` and `hook.setup_output_hook(result)`."""
    if kwargs or len(args) != 2:
        return MISSING
    given = args[1] if type(args[1]) is tuple else (args[1],)
    tensors = [value for value in given if calls.tensors.holds(type(value))]
    with DisableTorchFunction():
        needed = torch.is_grad_enabled() and any(value.requires_grad for value in tensors)
    calls.tensors.grads.asked()
    if needed:
        raise AutogradInside(REASON)
    return MISSING


SET_UP: Final[dict[int, "Handler"]] = {
    id(BackwardHook.setup_input_hook): _set_up,
    id(BackwardHook.setup_output_hook): _set_up,
}
