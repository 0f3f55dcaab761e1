"""Fakes of wrappers: of what they hold, put together by their own code.

In: a real wrapper, and which sizes are open, of it and of its parts. Out: a fake of its class
around fakes. A size of a part that is the same number as an open one of the wrapper is the same
symbol, a fact that is guarded as those of all inputs are.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext

from stator import objects
from stator.diagnostics.catalogue import TensorSubclass
from stator.graph.fakes.memory import expression
from stator.graph.fakes.wrappers import alike, flattened, is_own, is_wrapper
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.replay import hint_of

Fake = Callable[[torch.Tensor, str, Any], torch.Tensor]
"""Makes a fake of a plain tensor with a name, in a context."""
Symbolic = Callable[[torch.Tensor, str, Collection[int], dict[str, Any]], StatefulSymbolicContext]
"""The context in which these sizes of a tensor are open; some of its symbols are known."""


@dataclass
class Opened:
    """Which sizes of a wrapper are open, and of what it holds; once made, the symbols of each."""

    sizes: Collection[int]
    parts: dict[str, "Opened"] = field(default_factory=dict)
    context: StatefulSymbolicContext | None = None


def fake_wrapper(
    real: Any, name: str, opened: Opened, mode: Any, fake: Fake, symbolic: Symbolic
) -> torch.Tensor:
    """The fake of a wrapper."""
    if real.is_inference():
        raise Unsupported("a tensor with `__torch_dispatch__`, made in inference mode, is an input")
    size, stride = _extents(real, name, opened, fake, symbolic)
    symbols = {
        int(number): expression(now)
        for number, now in zip(real.shape, size, strict=True)
        if isinstance(now, torch.SymInt)
    }
    names, context = flattened(real)
    inner: dict[str, Any] = {}
    for part_name in names:
        part = getattr(real, part_name)
        where = f"{name}.{part_name}"
        of_part = opened.parts.setdefault(part_name, Opened(()))
        if not isinstance(part, torch.Tensor):
            inner[part_name] = part
        elif is_wrapper(part):
            of_part.sizes = {*of_part.sizes, *_alike(part, symbols)}
            inner[part_name] = fake_wrapper(part, where, of_part, mode, fake, symbolic)
        else:
            if of_part.context is None:
                dims = {*of_part.sizes, *_alike(part, symbols)}
                cache = {
                    f"{where}.size()[{d}]": symbols[n] for d, n in _alike(part, symbols).items()
                }
                if dims:
                    of_part.context = symbolic(part, where, dims, cache)
            inner[part_name] = fake(part, where, of_part.context)
    cls = type(real)
    with mode:
        made: torch.Tensor = cls.__tensor_unflatten__(dict(inner), context, size, stride)
    if type(made) is not cls or any(getattr(made, key) is not inner[key] for key in names):
        raise Unsupported(f"__tensor_unflatten__ of {cls.__qualname__} does not put together")
    if is_own(cls) and not alike(context, flattened(made)[1]):
        text = f"__tensor_unflatten__ of {cls.__qualname__} makes one that is not what it was"
        raise Unsupported(text, TensorSubclass)
    if list(map(hint_of, made.shape)) != list(real.shape):
        raise Unsupported(f"a {cls.__qualname__} has another shape than its class gives it")
    if made.requires_grad is not real.requires_grad:
        made.requires_grad_(real.requires_grad)
    if "_is_param" in (objects.instance_dict(real) or ()):
        made._is_param = real._is_param
    return made


def _extents(
    real: torch.Tensor, name: str, opened: Opened, fake: Fake, symbolic: Symbolic
) -> tuple[Any, Any]:
    """Sizes and strides, with symbols for what is open: those of a plain tensor that lies so."""
    size, stride = real.size(), real.stride()
    if not opened.sizes:
        return size, stride
    stand_in = torch.empty_strided(size, stride, device="meta")
    if opened.context is None:
        opened.context = symbolic(stand_in, name, opened.sizes, {})
    made = fake(stand_in, name, opened.context)
    return made.size(), made.stride()


def _alike(part: torch.Tensor, symbols: dict[int, Any]) -> dict[int, int]:
    """The sizes of a part that are among these numbers, by dimension."""
    return {dim: int(size) for dim, size in enumerate(part.shape) if int(size) in symbols}
