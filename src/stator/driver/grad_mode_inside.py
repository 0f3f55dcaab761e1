"""Graphs that begin without grad mode, and change an input with it.

Stage: driver. In: a graph that begins in the grad mode of the call being compiled. Out: why no
backend gets it. AOTAutograd compiles such a graph without a backward, and writes the new values
into the input without grad mode: autograd would know of it what it knew before.
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph import Recorded
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.purity import WRITTEN
from stator.torchlib.modes import set_grad_enabled

CHANGED: Final = "it changes an input in grad mode, in which it does not begin"


def changes_with_grad(recorded: Recorded) -> str | None:
    """Why a graph runs as it is, if autograd has to see how it changes an input."""
    graph = recorded.module.graph
    if torch.is_grad_enabled():
        return None
    written = frozenset[int]().union(*_written(graph))
    if not written:
        return None
    given = (node.meta.get("example_value") for node in graph.find_nodes(op="placeholder"))
    tensors = (each for each in given if isinstance(each, torch.Tensor))
    return CHANGED if any(storage_of(each) in written for each in tensors) else None


def _written(graph: fx.Graph) -> Iterator[frozenset[int]]:
    """The memory that is changed while grad mode is on."""
    enabled = False
    for node in graph.nodes:
        if node.target is set_grad_enabled:
            enabled = bool(node.args[0])
        elif enabled:
            found: Any = node.meta.get(WRITTEN)
            if found:
                yield found
