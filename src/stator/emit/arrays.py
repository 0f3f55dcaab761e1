"""numpy arrays at the edges of a graph: converted on the way in and out.

Stage: run time. In: a compiled graph, which takes and returns tensors. Out: a function that takes
arrays at some positions and returns arrays or numpy scalars at some; memory is shared, as
`torch.from_numpy` and `Tensor.numpy` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Edges:
    """Which inputs and outputs of a graph are numpy's: positions."""

    inputs: tuple[int, ...] = ()
    arrays: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The graph as a function of arrays."""
        if not (self.inputs or self.arrays or self.scalars):
            return graph
        inputs, arrays, scalars = self.inputs, self.arrays, self.scalars
        from_numpy = torch.from_numpy

        def graph_of_arrays(*args: Any) -> Sequence[Any]:
            given = list(args)
            for position in inputs:
                given[position] = from_numpy(given[position])
            outputs = list(graph(*given))
            for position in arrays:
                outputs[position] = outputs[position].numpy()
            for position in scalars:
                outputs[position] = outputs[position].numpy()[()]
            return outputs

        return graph_of_arrays
