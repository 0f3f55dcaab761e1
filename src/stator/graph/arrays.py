"""numpy in graphs: functions of torch's numpy layer as nodes, arrays as inputs and outputs.

In: the name of a numpy function. Out: a function of tensors that computes what numpy computes on
arrays; torch's own functions are inside, so backends see through it. And `Edges`, which convert
what comes into and out of a compiled graph, sharing memory as `torch.from_numpy` does.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

_AS_SUBCLASS: Final = torch._C.TensorBase.as_subclass


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


@dataclass(frozen=True)
class Edges:
    """Which inputs and outputs of a graph are numpy's, and which inputs are floats or tensors of
    a subclass, by position.
    """

    inputs: tuple[int, ...] = ()
    arrays: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()
    floats: tuple[int, ...] = ()
    subclasses: tuple[int, ...] = ()

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The compiled graph as a function that takes and returns arrays and floats there."""
        if not (self.inputs or self.arrays or self.scalars or self.floats or self.subclasses):
            return graph
        subclasses, as_subclass, plain = self.subclasses, _AS_SUBCLASS, torch.Tensor
        inputs, arrays, scalars, floats = self.inputs, self.arrays, self.scalars, self.floats
        from_numpy, tensor = torch.from_numpy, torch.tensor
        double: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}

        def graph_of_arrays(*args: Any) -> Sequence[Any]:
            given = list(args)
            for position in inputs:
                given[position] = from_numpy(given[position])
            for position in subclasses:
                given[position] = as_subclass(given[position], plain)
            for position in floats:
                given[position] = tensor(given[position], **double)
            outputs = list(graph(*given))
            for position in arrays:
                outputs[position] = outputs[position].numpy()
            for position in scalars:
                outputs[position] = outputs[position].numpy()[()]
            return outputs

        return graph_of_arrays
