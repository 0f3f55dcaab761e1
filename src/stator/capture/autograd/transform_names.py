"""What functions are called that `torch.func` makes of a function: as that one is.

Stage: capture, for `Tensors`. In: the question of `vmap`, `grad` and `grad_and_value` whether they
are compiled. Out: no. If they are, torch leaves the names of the function out, with which errors
mention it, and which programs may ask for.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any, Final

import torch
from torch.func import grad, grad_and_value, vmap

from stator._native._core import Frame

_COMPILING: Final = torch.compiler.is_compiling
_MAKERS: Final[tuple[Callable[..., Any], ...]] = (grad, grad_and_value, vmap)
_CODES: Final[frozenset[CodeType]] = frozenset(
    each.__code__ for each in _MAKERS if hasattr(each, "__code__")
)


def asks_for_names(frame: Frame | None, function: Any) -> bool:
    """Whether it is asked by one of those."""
    return function is _COMPILING and frame is not None and frame.code in _CODES
