"""What these tests share."""

import gc
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx as fx

import stator

X = torch.arange(4.0)


class Counting:
    """A backend that runs graphs as they are and counts them."""

    def __init__(self) -> None:
        self.graphs = 0
        self.fails = False

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if self.fails:
            raise ZeroDivisionError("the backend is broken")
        self.graphs += 1
        forward: Callable[..., Any] = module.forward
        return forward


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compiled for the numbers and sizes of each call, unless said otherwise."""
    return stator.compile(function, **{"backend": "eager", "dynamic": False, **options})


def scaled(x: torch.Tensor, n: Any) -> Any:
    return x * n


def split(x: torch.Tensor, n: int) -> torch.Tensor:
    """Two graphs, of which the one behind the break depends on `n`."""
    x = x + 1
    time.sleep(0)
    return x * n


def guarded(left: list[int]) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """The same in a `try` whose `finally` notes each call."""

    def guarded(x: torch.Tensor, n: int) -> torch.Tensor:
        try:
            x = x + 1
            time.sleep(0)
            return x * n
        finally:
            left.append(n)

    return guarded


def are_freed(*references: weakref.ref[Any]) -> bool:
    """Whether nothing of this lives any more, if not at once, then after a collection."""
    if any(reference() is not None for reference in references):
        gc.collect()
    return all(reference() is None for reference in references)
