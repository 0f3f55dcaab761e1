"""numpy functions as graph nodes, by torch's numpy layer.

In: the name of a numpy function. Out: a function of tensors that computes what numpy computes on
arrays; torch's own functions are inside, so backends see through it.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def numpy_function(name: str) -> Callable[..., Any]:
    """The node target for a numpy function: always the same one for a name."""
    layer: Any = importlib.import_module("torch._numpy")
    function = getattr(layer, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return _tensors(layer, function(*_arrays(layer, args), **_arrays(layer, kwargs)))

    call.__name__ = call.__qualname__ = f"numpy_{name}"
    return call


def _arrays(layer: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return layer.ndarray(value)
    if type(value) in (tuple, list):
        return type(value)(_arrays(layer, item) for item in value)
    if type(value) is dict:
        return {key: _arrays(layer, item) for key, item in value.items()}
    return value


def _tensors(layer: Any, value: Any) -> Any:
    return value.tensor if isinstance(value, layer.ndarray) else value
