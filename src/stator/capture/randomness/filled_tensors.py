"""Operators that fill a tensor with random numbers of a generator: `x.normal_(generator=g)`.

In: the operator, the tensor, a `torch.Generator`. Out: a copy of what is drawn into the tensor; or
a `Break`.

What is drawn depends on the generator and on how large the tensor is, of which dtype and how it
lies in memory, not on its values. So it is drawn before the graph, as everything else from
generators of the program's, into a new tensor that lies in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator.diagnostics.catalogue import RandomState
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_FILLS: Final = frozenset(
    {
        "bernoulli_",
        "cauchy_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "normal_",
        "random_",
        "uniform_",
    }
)


def fills(target: Any, args: Sequence[Any]) -> bool:
    """Whether an operator fills its first argument, whatever is in it."""
    method = type(target) is tuple and target[0] == "method" and target[1] in _FILLS
    return (
        method and type(args[0]) is FakeTensor and not any(type(a) is FakeTensor for a in args[1:])
    )


def drawn_into(
    generator: Any,
    shape: Sequence[int],
    dtype: torch.dtype,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> torch.Tensor:
    """What the operator draws for a tensor of this shape, made by rows."""
    empty = torch.empty(shape, dtype=dtype, device=generator.device)
    made: torch.Tensor = getattr(empty, name)(*args, generator=generator, **kwargs)
    return made


def place_of(
    tensors: "Tensors", fake: torch.Tensor, device: torch.device
) -> tuple[tuple[int, ...], torch.dtype]:
    """The shape and dtype of a tensor that can be filled by a copy."""
    with DisableTorchFunction():
        tensors.grads.asked()
        if fake.requires_grad and torch.is_grad_enabled():
            raise RandomState("a tensor that requires grad is filled by a generator")
        shape = tuple(fake.shape)
        if not all(type(size) is int for size in shape) or fake.layout is not torch.strided:
            raise RandomState("a generator fills a tensor whose size is not known")
        if not fake.is_contiguous() or fake.device != device:
            raise RandomState("a generator fills a tensor that does not lie in memory by rows")
        return shape, fake.dtype
