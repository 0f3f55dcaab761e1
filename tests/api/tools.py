"""What the tests of the public interface share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch import nn


class Recording:
    """A backend that runs graphs as they are and counts them."""

    def __init__(self) -> None:
        self.graphs: list[str] = []

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(module.code)
        forward: Callable[..., Any] = module.forward
        return forward


class Block(nn.Module):
    """A module with parameters, a buffer, a submodule and plain attributes."""

    scale: torch.Tensor

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("scale", torch.full((width,), 2.0))
        self.gain = 3

    def forward(self, x: torch.Tensor, extra: float = 0.0) -> torch.Tensor:
        return torch.relu(self.linear(x)) * self.scale * self.gain + extra
