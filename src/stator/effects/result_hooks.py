"""`register_hook` of what a compiled graph has returned.

Stage: effects, at run time. For autograd, all results of a graph that AOTAutograd has compiled come
from one node. It runs when one of them has a gradient, and calls the hooks of the others with None.
In eager, most tensors have a node of their own, which does not run without a gradient, nor do its
hooks. (Those of one of several results, of `unbind` for one, are called with None in eager, too.)
"""

from types import MethodType
from typing import Any, Final

import torch

REGISTER: Final[Any] = torch.Tensor.register_hook
_COMPILED: Final = "CompiledFunctionBackward"


def register_hook(self: torch.Tensor, hook: Any) -> Any:
    """As torch's; the hook is called if there is a gradient."""

    def with_gradient(grad: torch.Tensor | None) -> Any:
        return None if grad is None else hook(grad)

    return REGISTER(self, with_gradient)


def method_of(tensor: torch.Tensor) -> Any:
    """`tensor.register_hook`."""
    compiled = type(tensor.grad_fn).__name__ == _COMPILED
    return MethodType(register_hook if compiled else REGISTER, tensor)
