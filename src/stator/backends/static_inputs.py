"""Which inputs of a graph stay where they are between calls: CUDA graphs read them there.

In: a recorded graph, or the context in which AOTAutograd compiles one. Out: positions of inputs.
"""

from collections.abc import Iterator

import torch.fx as fx

from stator.graph.recording.output import LASTING
from stator.torchlib.backends import TracingContext

_MARK = "_dynamo_static_input_type"


def mark_lasting(module: fx.GraphModule) -> None:
    """What the graph changes, and the program holds, stays: the state of optimizers, caches.

    torch does without CUDA graphs where others are changed. If one of them moves after all, the
    graph is recorded again.
    """
    for node in module.graph.find_nodes(op="placeholder"):
        if node.meta.get(LASTING):
            node.meta.setdefault("tensor_dict", {}).setdefault(_MARK, "unguarded")


def staying(module: fx.GraphModule) -> Iterator[int]:
    """The inputs of a recorded graph that are marked."""
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        if node.meta.get("tensor_dict", {}).get(_MARK) is not None:
            yield index


def in_forward() -> list[int]:
    """Those of the forward graph that is being compiled."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return list(getattr(metadata, "static_input_indices", None) or ())
