"""What a backward must not compute again, since its input has other values by then.

In: a finished graph that changes inputs, and which nodes do. Out: marks on the nodes that read such
an input. A backend may keep an input for the backward, and compute again what it needs from it, in
place of a result that eager keeps. If the graph changes the input (running statistics, say), that
gives gradients of something else: so what is computed from such an input is kept itself.

The nodes that make the change are not marked: what they compute is the input's new value.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping

import torch.fx as fx
from torch.utils.checkpoint import CheckpointPolicy

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of


def keep_what_is_read(graph: fx.Graph, written: Mapping[fx.Node, Collection[int]]) -> None:
    """Marks the nodes that read inputs which are `written`: storages by the node that does it."""
    given = {memory for node in graph.nodes if node.op == "placeholder" for memory in _memory(node)}
    changed = given.intersection(itertools.chain(*written.values()))
    if not changed:
        return
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        read = {memory for each in node.all_input_nodes for memory in _memory(each)} & changed
        if read and read.isdisjoint(written.get(node, ())) and not read.issuperset(_memory(node)):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _memory(node: fx.Node) -> Iterator[int]:
    value = node.meta.get("example_value")
    return map(storage_of, tensors_in(value))
