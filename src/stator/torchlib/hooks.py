"""What torch calls a module by, and the hooks of all modules at once."""

from collections.abc import Iterator
from typing import Any, Final

import torch.nn.modules.module as module

from .door import needed

with needed("what `module(x)` does"):
    CALL_IMPL: Final[Any] = module.Module._call_impl

_ALL: Final = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
)


def for_all_modules() -> Iterator[Any]:
    """The hooks that are called for each module."""
    return (getattr(module, name, None) for name in _ALL)
