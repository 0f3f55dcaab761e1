"""What tensors tell of autograd inside of a function that `torch.func` transforms.

In: a tensor that the program asks, while the function is traced. Out: whether it requires grad as
far as the function can see, or a `Break`.

There, each transform has an autograd of its own: a result requires grad if it depends on what the
innermost `grad` differentiates by, whatever else requires grad outside. The fake tensors of the
trace have one autograd for all.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from stator.capture.autograd.autograd_leaves import Paths
from stator.diagnostics.catalogue import Transform
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.tensors import DisableTorchFunction

# What a tensor says that does not require grad.
APART: Final = {
    "grad_fn": None,
    "is_leaf": True,
    "output_nr": 0,
    "requires_grad": False,
    "retains_grad": False,
}


@dataclass(frozen=True)
class Region:
    """A function that is being traced; `given` are its own tensors, None if they are mapped."""

    subgraph: Subgraph
    given: Sequence[torch.Tensor] | None
    forward_mode: bool = False


class Inside:
    """The transforms whose functions are being traced, the innermost last."""

    def __init__(self) -> None:
        self._open: list[Region] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def maps(self) -> bool:
        """Whether one of them is `vmap`."""
        return any(each.given is None for each in self._open)

    @property
    def forward_mode(self) -> bool:
        """Whether one of them is `jvp`."""
        return any(each.forward_mode for each in self._open)

    @contextlib.contextmanager
    def entered(
        self,
        subgraph: Subgraph,
        given: Sequence[torch.Tensor] | None = None,
        forward_mode: bool = False,
    ) -> Iterator[None]:
        self._open.append(Region(subgraph, given, forward_mode))
        try:
            yield
        finally:
            self._open.pop()

    def refuse(self, what: str) -> None:
        """What torch does otherwise, or not at all, inside of a transform."""
        if self._open:
            raise Transform(f"{what} inside of a function that torch.func transforms")

    def differs(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor requires grad in the trace, but not for the program."""
        with DisableTorchFunction():
            return tensor.requires_grad and self._differs(tensor)

    def _differs(self, tensor: torch.Tensor) -> bool:
        region = self._owner(tensor)
        if region is None:
            return False
        if region.given is None:
            raise Transform("a tensor is asked for requires_grad inside of torch.vmap")
        if any(tensor is each for each in region.given):
            return False
        leaves = Paths().leaves(tensor.grad_fn)
        return not any(leaf is each for leaf in leaves for each in region.given)

    def _owner(self, tensor: torch.Tensor) -> Region | None:
        """The region in which a tensor was made."""
        for region in reversed(self._open):
            if not region.subgraph.arguments.is_outer(tensor):
                return region
        return None


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """What a function is given for a fake tensor: another one, of the same layout.

    It has memory of its own: torch's forward mode fails on views that are detached.
    """
    if tensor.is_conj() or tensor.is_neg():
        return tensor.detach()
    sizes, strides = tensor.size(), tensor.stride()
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
