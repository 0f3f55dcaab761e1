"""Calls of regions in graphs that a backend of the user's runs by their own code.

In: a graph module with calls of regions. Out: the same, whose `forward` calls the bodies as
functions where the tensors are real: torch's operator has no gradient there. Whoever traces the
code, or reads the graph, finds the operator.
"""

from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.recording.nested import calls_of
from stator.torchlib.modes import dispatch_mode_stack
from stator.torchlib.operators import INVOKE_SUBGRAPH

_REAL: Final = (torch.Tensor, torch.nn.Parameter)


def run_bodies(module: fx.GraphModule) -> None:
    """Makes the code of a graph module, and of the graphs in it, call bodies as functions."""
    for part in module.modules():
        if isinstance(part, fx.GraphModule) and calls_of(part.graph):
            function: Any = type(part).forward
            function.__globals__["torch"] = _TORCH


def _invoke(body: Any, name: str, *operands: Any) -> Any:
    if _is_traced(operands):
        return INVOKE_SUBGRAPH(body, name, *operands)
    return body(*operands)


def _is_traced(operands: tuple[Any, ...]) -> bool:
    if any(getattr(mode, "_mode_key", None) is not None for mode in dispatch_mode_stack()):
        return True  # a mode of torch's tracers
    return not all(type(each) in _REAL or type(each) is int for each in operands)


class _Names:
    """A module, with other things under some names."""

    def __init__(self, module: Any, **instead: Any) -> None:
        self._module = module
        self.__dict__.update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_TORCH: Final = _Names(
    torch,
    ops=_Names(torch.ops, higher_order=_Names(torch.ops.higher_order, invoke_subgraph=_invoke)),
)
