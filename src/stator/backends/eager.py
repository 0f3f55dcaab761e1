"""The backend that runs the graph as it is."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx as fx

from stator.graph.recording.nested import as_modules


def eager(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The graph's own `forward`: Python calling torch, node by node."""
    as_modules(module)
    for node in module.graph.nodes:
        node.meta.clear()  # fake tensors and the like, which `forward` does not need
    forward: Callable[..., Any] = module.forward
    return forward
