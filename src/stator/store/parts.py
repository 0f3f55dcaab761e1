"""What an entry consists of, for those who store it: kept beside the entry, as long as it lives.

Stage: store. Made by the driver. It holds nothing that the entry's own functions do not hold, too.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch.fx as fx

from stator.effects.steps import Plan
from stator.effects.suspension import Suspension
from stator.guards import Guard, Source
from stator.store.reasons import Unstorable


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph that runs as it is."""

    module: fx.GraphModule


@dataclass(frozen=True, eq=False)
class Kernels:
    """What Inductor has made of one, called directly."""

    compiled: Any
    grad: bool
    """Whether grad mode was on: the kernels run without."""


@dataclass(frozen=True, eq=False)
class Around:
    """What happens around a graph, as far as it can be said in numbers."""

    sizes: tuple[tuple[int, str, int], ...] = ()
    """Sizes that are inputs, too: which input, `size` or `stride`, which dimension."""
    rerun: bool = False
    """If the graph raises, the program runs in its place."""
    draws: bool = False
    """The graph draws random numbers, which are drawn again then."""
    changed: tuple[int, ...] = ()
    """Inputs that have to be as they were for that, by their versions."""
    grad: bool = False
    """The graph changes grad mode, which is as it was before when it raises."""


Artefact = Graph | Kernels | Unstorable | None
NOTHING: Final = Around()


@dataclass(frozen=True, eq=False)
class Parts:
    """One entry."""

    guards: tuple[Guard, ...]
    plan: Plan
    inputs: tuple[Source, ...]
    artefact: Artefact
    around: Around | Unstorable
    suspension: Suspension | None
    name: str
    """What the graph and the residual function are called."""
    operators: tuple[str, ...]
    graph: str | None
    """The graph as Python code, for the reader."""
    broken: tuple[Any, ...] | None
    """Why the program was split behind it, as the arguments of a `CaptureError`."""
    steady: bool
    ranges: tuple[str, ...]
