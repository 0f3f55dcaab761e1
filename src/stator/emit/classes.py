"""Results of a graph that are of a subclass of Tensor.

Stage: run time, after the graph. In: a plain tensor. Out: another one on the same memory, of the
class, as `as_subclass` would have made it in the grad mode that the program was in.
"""

from typing import Any, Final

import torch

from stator.torchlib.modes import set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction, TensorBase

_as_subclass: Final = TensorBase.as_subclass
_grad_fn: Final[Any] = TensorBase.__dict__["grad_fn"].__get__


def as_subclass(grad: bool, tensor: torch.Tensor, cls: type) -> Any:
    before = torch.is_grad_enabled()
    set_grad_enabled(grad)
    try:
        made: Any = _as_subclass(tensor, cls)
    finally:
        set_grad_enabled(before)
    with DisableTorchFunction():
        node = _grad_fn(made)
    if node is not None:
        node.register_prehook(_plain)
    return made


def _plain(grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradients as a compiled graph takes them: like its results, they are plain tensors."""
    return tuple(
        each if type(each) in _KINDS else _as_subclass(each, torch.Tensor) for each in grads
    )


_KINDS: Final = (torch.Tensor, type(None))
