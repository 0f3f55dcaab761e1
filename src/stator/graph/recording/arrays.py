"""numpy in graphs: functions of torch's numpy layer as nodes, arrays as inputs and outputs.

In: the name of a numpy function. Out: a function of tensors that computes what numpy computes on
arrays; torch's own functions are inside, so backends see through it. And `Edges`, which convert
what comes into and out of a compiled graph, sharing memory as `torch.from_numpy` does.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from stator.graph.fakes.views import MadeView
from stator.graph.passes.purity import COMPUTES
from stator.torchlib.arrays import numpy_layer
from stator.torchlib.tensors import TensorBase

_NAMES: Final = {"axis": "dim", "axes": "dim"}
_AS_SUBCLASS: Final = TensorBase.as_subclass


@functools.cache
def numpy_function(name: str) -> Callable[..., Any]:
    """The node target for a numpy function: always the same one for a name."""
    if name.startswith("fft."):
        return _named(name, _transform(name.removeprefix("fft.")))
    if name in _OWN:
        return _named(name, _OWN[name])
    layer = numpy_layer()
    function: Any = functools.reduce(getattr, name.split("."), layer)

    def call(*args: Any, **kwargs: Any) -> Any:
        return _tensors(layer, function(*_arrays(layer, args), **_arrays(layer, kwargs)))

    return _named(name, call)


def _named(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    setattr(call, COMPUTES, True)
    call.__name__ = call.__qualname__ = f"numpy_{name.replace('.', '_')}"
    return call


def _transform(name: str) -> Callable[..., Any]:
    """A Fourier transform: torch's own keeps the precision, where its numpy layer has doubles."""
    function: Any = getattr(torch.fft, name)

    def call(given: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        named = {_NAMES.get(key, key): value for key, value in kwargs.items()}
        if name not in _SHIFTS and not (given.is_floating_point() or given.is_complex()):
            given = given.double()
        if name in _INVERSE and not given.is_complex():
            given = torch.complex(given, torch.zeros_like(given))  # else zeros are negative
        return function(given, *args, **named)

    return call


def _sign(given: torch.Tensor) -> torch.Tensor:
    """torch says 0 of nan."""
    return torch.where(given.isnan(), given, given.sign())


def _angle(given: torch.Tensor, deg: bool = False) -> torch.Tensor:
    """torch says 0 of a negative zero, whose angle is pi."""
    if given.is_floating_point():
        found = torch.atan2(torch.zeros_like(given), given)
    else:
        found = torch.angle(given)
    return found * (180 / math.pi) if deg else found


def _remainder(given: Any, divisor: Any) -> torch.Tensor:
    """As numpy's `npy_divmod`: a zero has the sign of the divisor."""
    if not isinstance(given, torch.Tensor):
        given = torch.full((), given, dtype=torch.result_type(divisor, given))
    if not given.is_floating_point() and not torch.is_tensor(divisor):
        return torch.remainder(given, divisor)
    if not isinstance(divisor, torch.Tensor):
        divisor = torch.full((), divisor, dtype=torch.result_type(given, divisor))
    rest = torch.fmod(given, divisor)
    moved = torch.where((divisor < 0) != (rest < 0), rest + divisor, rest)
    zero = torch.copysign(torch.zeros_like(rest), divisor)
    return torch.where(divisor == 0, rest, torch.where(rest == 0, zero, moved))


def _padded(given: torch.Tensor, widths: Sequence[int], value: Any) -> torch.Tensor:
    return torch.nn.functional.pad(given, list(widths), value=value)


# What torch's numpy layer does in another way than numpy.
_OWN: Final[dict[str, Callable[..., Any]]] = {
    "angle": _angle,
    "sign": _sign,
    "remainder": _remainder,
    "pad": _padded,
}
_SHIFTS: Final = frozenset({"fftshift", "ifftshift"})
_INVERSE: Final = frozenset({"ifft", "ifft2", "ifftn"})


def _arrays(layer: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return layer.ndarray(value)
    if type(value) in (tuple, list):
        return type(value)(_arrays(layer, item) for item in value)
    if type(value) is dict:
        return {key: _arrays(layer, item) for key, item in value.items()}
    return value


def _tensors(layer: Any, value: Any) -> Any:
    if type(value) in (tuple, list):
        return [_tensors(layer, item) for item in value]
    return value.tensor if isinstance(value, layer.ndarray) else value


@dataclass(frozen=True)
class Edges:
    """Which inputs and outputs of a graph are numpy's, which inputs are floats or tensors of a
    subclass, by position; and outputs that were made in or out of inference mode, unlike the call.
    """

    inputs: tuple[int, ...] = ()
    arrays: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()
    floats: tuple[int, ...] = ()
    subclasses: tuple[int, ...] = ()
    inference: tuple[tuple[int, bool], ...] = ()
    views: tuple[MadeView, ...] = ()
    """Outputs that autograd may refuse to change in place."""

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The compiled graph as a function that takes and returns arrays and floats there."""
        if self == _NONE:
            return graph
        subclasses, as_subclass, plain = self.subclasses, _AS_SUBCLASS, torch.Tensor
        inputs, arrays, scalars, floats = self.inputs, self.arrays, self.scalars, self.floats
        inference, views = self.inference, self.views
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
            for position, mode in inference:
                outputs[position] = _made_so(outputs[position], mode)
            for view in views:
                outputs[view.position] = view.again(outputs[view.position], given)
            return outputs

        return graph_of_arrays


_NONE: Final = Edges()


def _made_so(made: torch.Tensor, inference: bool) -> torch.Tensor:
    """The tensor as that mode makes it, on the same memory: backends forget where it was made."""
    if made.is_inference() is inference:
        return made
    with torch.inference_mode(inference):
        place = made.storage_offset(), made.shape, made.stride()
        empty = torch.empty(0, dtype=made.dtype, device=made.device)
        return empty.set_(made.untyped_storage(), *place)
