"""Which nodes of a graph draw from torch's generator.

In: a graph that is being recorded. Out: how many of its operators draw, perhaps. A call of a region
counts as often as its body draws (`DRAWS`, in the node's meta).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import torch
import torch.fx as fx

from stator.graph.passes.purity import DRAWS, RANDOM, is_torch_function
from stator.torchlib.operators import OpOverload

# Operators that draw nothing if an option says so: its name, position, that value, the default.
_SWITCHED: Final[dict[str, tuple[str, int, bool | float, bool | float]]] = {
    "dropout": ("training", 2, False, True),
    "scaled_dot_product_attention": ("dropout_p", 4, 0.0, 0.0),
}


def random_nodes(graph: fx.Graph) -> int:
    """How many operators draw from torch's generator, perhaps, those in bodies of regions too."""
    return sum(
        node.meta[DRAWS] if DRAWS in node.meta else _may_be_random(node) for node in graph.nodes
    )


def draws_of(bodies: Iterable[fx.GraphModule]) -> dict[str, int]:
    """For the meta of a node that calls graphs: how many operators of these draw."""
    drawn = [random_nodes(body.graph) for body in bodies]
    return {DRAWS: sum(drawn)} if drawn else {}


def _may_be_random(node: fx.Node) -> bool:
    if node.op == "call_module":
        return True
    if node.op == "call_method":
        return str(node.target).rstrip("_") in RANDOM
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    if not is_torch_function(node.target):
        return True
    name = getattr(node.target, "__name__", "").rstrip("_")
    if name in _SWITCHED:
        option, position, off, default = _SWITCHED[name]
        positional = len(node.args) > position
        given = node.args[position] if positional else node.kwargs.get(option, default)
        if type(given) is type(off) and given == off:
            return False
    return name in RANDOM


def nodes_of(module: torch.nn.Module) -> Iterator[fx.Node]:
    """The nodes of a graph, and of the regions in it."""
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from part.graph.nodes
