"""The backend that runs what AOTAutograd makes of the graph, without compiling it further."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx as fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified


def _as_it_is(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    boxed: Callable[..., Any] = make_boxed_func(gm.forward)
    return boxed


def aot_eager(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Functionalized forward and backward graphs, run node by node."""
    compiled: Callable[..., Any] = aot_module_simplified(
        module, list(example_inputs), fw_compiler=_as_it_is, bw_compiler=_as_it_is
    )
    return compiled
