"""The backend that runs the graph as it is."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx as fx


def eager(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The graph's own `forward`: Python calling torch, node by node."""
    forward: Callable[..., Any] = module.forward
    return forward
