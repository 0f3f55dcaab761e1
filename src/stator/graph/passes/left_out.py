"""What a backend may leave out of a graph.

In: a graph that is recorded, and tensors. Out: the nodes that are not needed for them.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.ancestry import computed_from
from stator.graph.passes.purity import KEEP, WRITTEN
from stator.graph.recording.output import OutputGraph


def without_result(graph: OutputGraph, outputs: Sequence[Any]) -> set[fx.Node]:
    """The nodes that need not be computed for these results and for what becomes of inputs.

    A backend may leave them out, also where the program changes tensors that it has made.
    """
    given = {storage_of(each) for each in graph.fakes.given_memory()}
    left = [graph.arguments.node(tensor) for tensor in tensors_in(list(outputs))]
    for node in graph.graph.nodes:
        if KEEP not in node.meta:
            continue
        written = node.meta.get(WRITTEN)
        if written is None:  # it may be any
            operands = (each.meta.get("example_value") for each in node.all_input_nodes)
            written = {storage_of(each) for each in operands if isinstance(each, torch.Tensor)}
        if not given.isdisjoint(written):
            left.append(node)
    return set(graph.graph.nodes).difference(computed_from(left))
