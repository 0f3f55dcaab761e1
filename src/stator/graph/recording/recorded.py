"""What a recording is made of: its inputs, and the finished graph.

In: nothing. Out: the records that `output.py` makes, and that others read.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.fx as fx

from stator.torchlib.fakes import FakeTensorMode


@dataclass(frozen=True)
class Input:
    """A placeholder: its name, and the value it stood for while recording."""

    name: str
    value: torch.Tensor | int = field(repr=False)

    @property
    def identity(self) -> object:
        """An object of its own: the tensor, but ints that are equal may be one object."""
        return self if type(self.value) is int else self.value


@dataclass(frozen=True)
class Recorded:
    """A finished graph, as a backend gets it."""

    module: fx.GraphModule
    inputs: list[Input]
    example_inputs: list[Any]
    fake_mode: FakeTensorMode


class Taken(NamedTuple):
    """What a tensor of one bool was taken to be."""

    tensor: torch.Tensor
    answer: bool
    place: object
    """Where the program has asked."""
