"""Random numbers that are drawn and not used: they must be drawn all the same.

Stage: the end of a trace. In: the graph and its results. Out: further results. A backend leaves out
what leads to no result, and then the generator is not where eager leaves it.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.ancestry import computed_from
from stator.graph.passes.drawing import nodes_of
from stator.graph.passes.purity import DRAWS
from stator.graph.passes.retry import draws, may_draw
from stator.graph.recording.output import OutputGraph


def unused_draws(graph: OutputGraph, outputs: Sequence[Any]) -> list[torch.Tensor]:
    """What random operators have made that none of the results is computed from."""
    pure: set[tuple[str, int]] = set()  # what draws nothing, by id of the target
    drawing: list[fx.Node] = []
    for node in graph.graph.nodes:
        key = node.op, id(node.target)
        if key not in pure or DRAWS in node.meta:
            if _draws(graph, node):
                drawing.append(node)
            elif node.op != "call_module" and not may_draw(node):
                pure.add(key)
    if not drawing:
        return []
    results = list(tensors_in(list(outputs)))
    used = set(computed_from(map(graph.node, results)))
    kept = {storage_of(each) for each in results}
    kept.update(map(storage_of, graph.fakes.given_memory()))
    unused = [node for node in drawing if node not in used]
    made = [next(iter(tensors_in(node.meta.get("example_value"))), None) for node in unused]
    # What is drawn into memory that somebody sees, is seen.
    return [each for each in made if each is not None and storage_of(each) not in kept]


def _draws(graph: OutputGraph, node: fx.Node) -> bool:
    if node.op != "call_module":
        return node.op.startswith("call_") and draws(node)
    region: Any = graph.attribute(str(node.target))
    return any(map(draws, nodes_of(region)))
