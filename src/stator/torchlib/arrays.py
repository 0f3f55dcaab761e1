"""torch's layer of numpy functions, which is loaded when a program first computes with arrays."""

from importlib import import_module
from typing import Any

from .door import needed


def numpy_layer() -> Any:
    """numpy's functions, written with tensors."""
    with needed("functions of numpy in a graph"):
        return import_module("torch._numpy")
