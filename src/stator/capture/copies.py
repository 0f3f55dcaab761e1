"""`copy.copy` of tensors: another tensor on the same memory.

In: a call of `copy.copy`. Out: a node, if it is a tensor's; otherwise the function is evaluated.
Deep copies come to `TensorState.deepcopy` by `Tensor.__deepcopy__`.
"""

import copy
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.entered import evaluated
from stator.capture.special import Handler

if TYPE_CHECKING:
    from stator.capture.calls import Calls


def _copy(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and calls.tensors.holds(type(args[0])):
        calls.tensors.grads.asked()
        return calls.tensors.own.shallow_copy(frame, args[0])
    return evaluated(calls, frame, function, args, kwargs)


COPIES: Final[dict[int, Handler]] = {id(copy.copy): _copy}
