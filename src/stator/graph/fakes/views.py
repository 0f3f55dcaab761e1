"""What autograd notes of how a view was made, and views that are made so again.

In: a result of a compiled graph that is such a view in eager. Out: the same memory as a view of
that kind. Backends make views in ways of their own, in the grad mode of the call, or no view.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from stator.torchlib.autograd import CreationMeta, creation_meta, set_creation_meta

_Kind: Final = CreationMeta
USUAL: Final = _Kind.DEFAULT
IN_INFERENCE: Final = _Kind.INFERENCE_MODE
MODES: Final = (_Kind.NO_GRAD_MODE, IN_INFERENCE)
"""Of views that were made while nothing is differentiated: they have no gradient."""


def view_kind(tensor: torch.Tensor) -> Any:
    """How a view was made; the usual also for what is no view."""
    return creation_meta(tensor) if tensor._is_view() else USUAL


@dataclass(frozen=True)
class MadeView:
    """A result of a graph that autograd treats in a way of its own."""

    position: int
    kind: Any
    requires_grad: bool
    base: int | None
    """The input of which it is a view, if it was made while nothing is differentiated."""

    def again(self, made: torch.Tensor, inputs: Sequence[Any]) -> torch.Tensor:
        if view_kind(made) == self.kind and made.requires_grad is self.requires_grad:
            return made
        if self.base is not None:
            with torch.inference_mode() if self.kind == IN_INFERENCE else torch.no_grad():
                place = made.shape, made.stride(), made.storage_offset()
                return torch.as_strided(inputs[self.base], *place)
        if not made.requires_grad or made.is_inference():
            return made
        if not made._is_view():
            with torch.enable_grad():
                made = made.view_as(made)
        set_creation_meta(made, self.kind)
        return made
