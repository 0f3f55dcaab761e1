"""`copy.copy` of tensors: another tensor on the same memory; where `copy.deepcopy` may be split.

In: a call of one of them. Out: a node, if a tensor is copied; otherwise the function is evaluated.
Deep copies of tensors come to `TensorState.deepcopy` by `Tensor.__deepcopy__`.

The memo of a deep copy has addresses for keys. They are those of the trace's own objects, so that
nothing depends on where the program's are, and mean nothing once the trace has ended: a program
that has to be split inside of a deep copy is split before it, and nobody may keep a memo.
"""

import copy
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.python_calls import evaluated
from stator.capture.objects.addresses import COPYING, tell
from stator.diagnostics.catalogue import InterpreterState

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def _copy(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and calls.tensors.holds(type(args[0])):
        calls.tensors.grads.asked()
        return calls.tensors.own.shallow_copy(frame, args[0])
    return evaluated(calls, frame, function, args, kwargs)


def _deepcopy(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    memo = args[1] if len(args) > 1 else kwargs.get("memo")
    if memo is not None and id(frame.globals) not in COPYING:
        if calls.world.is_world(memo) or not _inside(calls, frame):
            raise InterpreterState("copy.deepcopy gets a memo, and writes addresses into it")
        tell(calls, memo)
    result = evaluated(calls, frame, function, args, kwargs)
    if type(result) is Frame:
        calls.standing[id(result)] = result, calls.tracer.steps - 1
    return result


def _inside(calls: "Calls", frame: Frame) -> bool:
    """Whether a deep copy has begun: a `__deepcopy__` of the program passes its memo on."""
    step: Frame | None = frame
    while step is not None and step.code is not copy.deepcopy.__code__:
        step = step.caller
    return step is not None


COPIES: Final[dict[int, Handler]] = {id(copy.copy): _copy, id(copy.deepcopy): _deepcopy}
