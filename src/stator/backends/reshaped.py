"""Tensors made in a graph and given another shape in place: `unsqueeze_`, `t_`.

Comes in: a graph for AOTAutograd. Goes out: where such a tensor and a view of it are both results,
it is made by the operator that is not in place. AOTAutograd makes views that are results anew, from
what it takes for their base, which it has in the first shape; it fails then when the graph runs.
"""

from collections import Counter
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.torchlib.tensors import DisableTorchFunction

_METHODS: Final = frozenset(
    {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}
)


def as_views(module: fx.GraphModule) -> None:
    graph = module.graph
    found = [each for each in graph.nodes if _reshapes(each)]
    if not found:
        return
    shared = _shared_results(graph)
    changed = False
    for node in found:
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor) or _memory(value) not in shared:
            continue
        alike = [each for each in graph.nodes if _is(each, value)]
        if any(each.op == "placeholder" for each in alike):
            continue
        with graph.inserting_before(node):
            made = graph.call_method(node.target.removesuffix("_"), node.args, node.kwargs)
        made.meta = dict(node.meta)
        _replace_behind(made, alike)
        graph.erase_node(node)
        changed = True
    if changed:
        graph.lint()
        module.recompile()


def _reshapes(node: fx.Node) -> bool:
    return node.op == "call_method" and node.target in _METHODS


def _is(node: fx.Node, value: torch.Tensor) -> bool:
    """Whether it is the tensor: so is what operators in place answer."""
    return node.meta.get("example_value") is value


def _replace_behind(made: fx.Node, nodes: list[fx.Node]) -> None:
    behind: set[fx.Node] = set()
    step = made.next
    while step.op != "root":
        behind.add(step)
        step = step.next
    for node in nodes:
        if node is not made:
            node.replace_all_uses_with(made, delete_user_cb=behind.__contains__)


def _shared_results(graph: fx.Graph) -> set[Any]:
    """The memory of several results."""
    results = graph.output_node().all_input_nodes
    values = [tensors_in(each.meta.get("example_value")) for each in results]
    count = Counter(_memory(each) for tensors in values for each in tensors)
    return {memory for memory, times in count.items() if times > 1}


def _memory(tensor: torch.Tensor) -> Any:
    with DisableTorchFunction():
        return storage_of(tensor) if tensor.layout is torch.strided else None
