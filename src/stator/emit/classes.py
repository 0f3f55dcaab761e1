"""Results of a graph that are of a subclass of Tensor.

Stage: run time, after the graph. In: a plain tensor. Out: another one on the same memory, of the
class, as `as_subclass` would have made it in the grad mode that the program was in.
"""

from typing import Any, Final

import torch

_as_subclass: Final = torch._C.TensorBase.as_subclass


def as_subclass_in(grad: bool, tensor: torch.Tensor, cls: type) -> Any:
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(grad)
    try:
        return _as_subclass(tensor, cls)
    finally:
        torch._C._set_grad_enabled(before)
