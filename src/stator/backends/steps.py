"""When the memory of CUDA graphs may be used again: at each call of the program.

In: what a backend made of a graph. Out: the same, which begins a new step where it is the first
graph of the thread's outermost call of a compiled function. Torch replays a graph although results
of an earlier step are alive; it has an error for those who read them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from stator._native import _core
from stator.torchlib import inductor as torch_inductor
from stator.torchlib.cuda_graphs import end_step

from .inductor_settings import config_patches
from .registry import Backend, Compiled

_SETTING = "triton.cudagraphs"


def in_steps(function: Compiled) -> Compiled:
    """The same, in steps."""

    def call(*args: Any) -> Any:
        if begin_step():
            end_step()
        return function(*args)

    begin_step: Callable[[], bool] = _core.begin_step
    return call


def may_record(
    backend: str | Backend, options: Mapping[str, Any], example_inputs: Sequence[Any]
) -> bool:
    """Whether torch may record CUDA graphs of what a backend made."""
    if not any(isinstance(each, torch.Tensor) and each.is_cuda for each in example_inputs):
        return False
    if not isinstance(backend, str):
        return "torch._inductor" in sys.modules  # a backend of the program's, which may use it
    if backend != "inductor":
        return False
    asked = config_patches(options.get("mode"), options.get("options")).get(_SETTING)
    return bool(torch_inductor.config().triton.cudagraphs if asked is None else asked)
