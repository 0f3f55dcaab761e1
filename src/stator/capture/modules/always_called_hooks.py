"""Forward hooks of modules that are called even if the forward raises (`always_call=True`).

Stage: capture, for `Tensors`. In: the question of `nn.Module.__call__` whether it is compiled. Out:
no, if the module or all modules have such hooks: torch's code leaves them out while it is compiled.
Without them the answer is yes, as for everyone, and there is one `try` block less to be in.
"""

from types import CodeType
from typing import Any, Final

import torch
from torch.nn.modules import module

from stator._native._core import Frame
from stator.torchlib.tracers import module_call
from stator.world import MISSING

_CALL: Final[CodeType] = module_call.__code__
_COMPILING: Final = torch.compiler.is_compiling
_HOOKS: Final = "_forward_hooks_always_called"
_GLOBAL: Final = f"_global{_HOOKS}"


def asks_for_hooks(frame: Frame | None, function: Any) -> bool:
    """Whether it is asked by a call of a module with such hooks."""
    if function is not _COMPILING or frame is None or frame.code is not _CALL:
        return False
    tracer: Any = frame.ops
    hooks = tracer.getattr(frame, tracer.load_cell(frame, frame[_SELF]), _HOOKS)
    everywhere = tracer.namespace_value(module.__dict__, _GLOBAL)
    return tracer.truth(frame, hooks) or (
        everywhere is not MISSING and tracer.truth(frame, everywhere)
    )


_SELF: Final = _CALL.co_varnames.index("self")
