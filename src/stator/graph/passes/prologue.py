"""What happens right before a compiled graph, and what is finished right behind it.

In: steps in program order, each a call with constants and world objects as arguments. Out: a
function around the compiled graph that carries the steps out, gives what they make to the graph,
and marks results that begin to require grad. A step is for what no graph holds: fresh leaves of
autograd, draws from random number generators that are not torch's own, seeds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stator.graph.passes.retry import Refused


@dataclass(frozen=True, eq=False)
class Given:
    """In the arguments of a step: the world object with this number."""

    index: int


@dataclass(frozen=True, eq=False)
class Made:
    """In the arguments of a step: what the step with this number has made."""

    index: int


@dataclass(frozen=True, eq=False)
class Step:
    """One call; its result, if the graph uses it, is the input at `position`."""

    run: Callable[..., Any]
    args: tuple[Any, ...] = ()
    position: int | None = None
    saved: Callable[..., Callable[[], Any]] | None = None
    """From the same arguments, before the call: what makes the call undone."""


@dataclass(frozen=True, eq=False)
class Prologue:
    """The steps of one graph, and the outputs that are leaves which require grad."""

    steps: tuple[Step, ...] = ()
    given: int = 0
    """How many world objects the steps need: they are the last arguments."""
    leaves: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps or self.leaves)

    def around(self, graph: Callable[..., Sequence[Any]] | None, *, retry: bool = False) -> Any:
        """The graph as a function of the inputs that no step makes, and of the world objects.

        With `retry`, the program runs in the graph's place if that refuses: then the steps are
        undone before.
        """
        if not self:
            return graph
        run = graph if graph is not None else _nothing
        steps, leaves, count = self.steps, self.leaves, self.given

        def graph_with_prologue(*args: Any) -> Sequence[Any]:
            end = len(args) - count
            inputs, world = list(args[:end]), args[end:]
            made: list[Any] = []
            undo: list[Callable[[], Any]] = []
            try:
                for step in steps:
                    given = [_argument(arg, world, made) for arg in step.args]
                    if retry and step.saved is not None:
                        undo.append(step.saved(*given))
                    made.append(step.run(*given))
                placed = {s.position: v for s, v in zip(steps, made, strict=True)}
                placed.pop(None, None)
                for position in sorted(p for p in placed if p is not None):
                    inputs.insert(position, placed[position])  # those before it are in already
                outputs = run(*inputs)
            except Refused:
                for each in reversed(undo):
                    each()
                raise
            for index in leaves:
                outputs[index].requires_grad_()
            return outputs

        return graph_with_prologue


def _argument(value: Any, world: Sequence[Any], made: Sequence[Any]) -> Any:
    if type(value) is Given:
        return world[value.index]
    return made[value.index] if type(value) is Made else value


def _nothing() -> tuple[()]:
    return ()


def new_leaf(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    requires_grad: bool,
    parameter: bool,
) -> torch.Tensor:
    """A leaf of autograd that the graph fills; its memory holds nothing yet."""
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


def same_leaf(tensor: torch.Tensor) -> torch.Tensor:
    """Marks, while recording, where a tensor begins to require grad; not in finished graphs."""
    return tensor


def set_requires_grad(tensor: torch.Tensor, flag: bool) -> None:
    tensor.requires_grad_(flag)


def saved_requires_grad(tensor: torch.Tensor, _: bool) -> Callable[[], Any]:
    before = tensor.requires_grad
    return lambda: tensor.requires_grad_(before)


__all__ = [
    "Given",
    "Made",
    "Prologue",
    "Step",
    "new_leaf",
    "same_leaf",
    "saved_requires_grad",
    "set_requires_grad",
]
