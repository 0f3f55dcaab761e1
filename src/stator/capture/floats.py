"""Floats that a trace leaves open: a learning rate that decays, a temperature.

In: a float of the world that has changed between calls. Out: a number that only the graph knows
(`capture.scalars`): the graph gets it as a tensor of float64 without dimensions, and reads it from
there, so that it is a Python float to all operators. Where the program decides something by it, the
driver traces once more, with the floats as they are.
"""

from typing import TYPE_CHECKING, Any

import torch

from stator.guards import Source, TypeIs
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.shapes import Wanted
    from stator.capture.tensors import Tensors


class Floats:
    """The floats that one trace leaves open."""

    def __init__(self, tensors: "Tensors", wanted: "Wanted") -> None:
        self._tensors = tensors
        self._wanted = wanted
        self.inputs: dict[int, torch.Tensor] = {}  # what stands for them, by id
        self._sources: dict[int, tuple[Any, Source]] = {}  # by id of the number

    def __bool__(self) -> bool:
        return bool(self.inputs)

    def number(self, raw: float, source: Source) -> Any:
        """A float of the world; MISSING if it is not left open."""
        if not self._wanted.opens_float(str(source)):
            return MISSING
        tensors = self._tensors
        with torch._C.DisableTorchFunction():
            double = torch.tensor(raw, dtype=torch.float64, device="cpu")
            fake = tensors.graph.add_input(str(source), double)
        self.inputs[id(double)] = double
        tensors.sources[id(double)] = source
        number = tensors.scalars.float_of(fake)
        self._sources[id(number)] = number, source
        tensors.world.guard(source, TypeIs(float))
        return number

    def source_of(self, number: Any) -> Source | None:
        """Where a number is found in the world, if it is there."""
        known = self._sources.get(id(number))
        return None if known is None else known[1]
