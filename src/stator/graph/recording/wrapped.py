"""Operations on wrappers (docs/subclasses.md): what they may not do to them.

In: the operands of a call. Out: its result, or `Unsupported`. The classes' own code runs on fakes,
as a kernel does; afterwards each wrapper must still hold the same parts, or nobody would know what
its attributes are. All else that it leads to must be as it was: the code has run in a trace.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from stator import objects
from stator.diagnostics.catalogue import RegionContents, TensorSubclass
from stator.graph.fakes.reached import Reached
from stator.graph.fakes.wrappers import flattened, is_own, is_wrapper, parts_of
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.operations import Operation
from stator.objects.types import module_of, of_torch
from stator.torchlib.fakes import FakeTensor

if TYPE_CHECKING:
    from stator.graph.recording.output import OutputGraph


class Code(Protocol):
    """The code of classes of wrappers, which is not evaluated."""

    def begin(self, reached: Iterable[Any]) -> None:
        """It is about to run, on tensors that lead to these objects."""

    def check(self) -> None:
        """It has run."""


WRAPPERS_IN_REGIONS = "a tensor with `__torch_dispatch__` inside of a region of the graph"


@dataclass(frozen=True)
class Held:
    """A wrapper, with what it holds before an operation."""

    tensor: torch.Tensor
    parts: tuple[tuple[str, torch.Tensor], ...]
    context: Any
    own: dict[str, Any]
    """Its attributes, if its class is the program's."""

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Held":
        _, context = flattened(tensor)
        own = objects.instance_dict(tensor) if is_own(type(tensor)) else None
        return cls(tensor, tuple(parts_of(tensor)), context, dict(own or {}))

    def is_kept(self) -> bool:
        """Whether its attributes are the same objects."""
        if not self.own:
            return True
        now = objects.instance_dict(self.tensor) or {}
        same = len(now) == len(self.own)
        return same and all(now.get(name) is value for name, value in self.own.items())

    def still_holds(self) -> bool:
        """Whether it holds the same tensors, and is otherwise equal to what it was."""
        now = Held.of(self.tensor)
        if [name for name, _ in now.parts] != [name for name, _ in self.parts]:
            return False
        same = all(a is b for (_, a), (_, b) in zip(self.parts, now.parts, strict=True))
        return same and (now.context is self.context or bool(now.context == self.context))


@dataclass(frozen=True)
class Wrapped:
    """The wrappers among the operands of a call."""

    held: tuple[Held, ...]

    @classmethod
    def among(cls, operands: Sequence[torch.Tensor]) -> "Wrapped | None":
        """None if there are none."""
        for each in operands:
            if type(each) is not FakeTensor and is_wrapper(each):
                break
        else:
            return None
        return cls(tuple(Held.of(each) for each in operands if is_wrapper(each)))

    def check(self, operation: Operation, graph: "OutputGraph") -> None:
        """Whether the operation can be recorded at all."""
        if not graph.takes_wrappers:
            raise Unsupported(WRAPPERS_IN_REGIONS, RegionContents)
        if operation.uncounted or operation.resized_as or operation.resizes is not None:
            text = f"{operation.shown} of a tensor with `__torch_dispatch__`"
            raise Unsupported(text, TensorSubclass)

    def run(self, operation: Operation, carry_out: Callable[[], Any], code: "Code") -> Any:
        """The result of the operation; whether the code of classes has changed anything."""
        tensors = [each.tensor for each in self.held if not of_torch(module_of(type(each.tensor)))]
        reached = Reached(map(objects.instance_dict, tensors))
        code.begin(reached.objects)
        try:
            result = carry_out()
        finally:
            if reached.undo():
                text = (
                    f"{operation.shown} changes what a tensor with `__torch_dispatch__` refers to"
                )
                raise Unsupported(text, TensorSubclass)
            code.check()
        for each in self.held:
            if not each.is_kept():
                kind = type(each.tensor).__qualname__
                text = f"{operation.shown} changes attributes of a {kind}"
                raise Unsupported(text, TensorSubclass)
        return result

    def check_unchanged(self, operation: Operation) -> None:
        """Something was written to: each holds the same tensors as before."""
        for each in self.held:
            if not each.still_holds():
                kind = type(each.tensor).__qualname__
                text = f"{operation.shown} gives a {kind} other tensors to hold"
                raise Unsupported(text, TensorSubclass)
