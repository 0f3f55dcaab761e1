"""Which nodes of a graph draw from torch's generator.

In: a graph that is being recorded. Out: how many of its operators draw, perhaps. A call of a region
counts as often as its body draws (`DRAWS`, in the node's meta).
"""

from collections.abc import Iterable
from typing import Final

import torch
import torch.fx as fx

from stator.graph.passes.purity import DRAWS, RANDOM, is_torch_function
from stator.torchlib.operators import OpOverload

# Operators that draw nothing if an option says so: its names, position, that value, the default.
_SWITCHED: Final[dict[str, tuple[tuple[str, ...], int, bool | float, bool | float]]] = {
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
        (("training", "train"), 2, False, True),
    ),
    **dict.fromkeys(
        ("alpha_dropout", "feature_alpha_dropout"), (("training", "train"), 2, False, False)
    ),
    "rrelu": (("training",), 3, False, False),
    "scaled_dot_product_attention": (("dropout_p",), 4, 0.0, 0.0),
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
    return name in RANDOM and not is_switched_off(node)


def is_switched_off(node: fx.Node) -> bool:
    """Whether an option says that a random operator draws nothing, as outside of training."""
    name = getattr(node.target, "__name__", "").rstrip("_")
    if node.op != "call_function" or name not in _SWITCHED:
        return False
    options, position, off, default = _SWITCHED[name]
    if len(node.args) > position:
        given = node.args[position]
    else:
        given = next((node.kwargs[each] for each in options if each in node.kwargs), default)
    return type(given) is type(off) and given == off


def nodes_of(module: torch.nn.Module) -> list[fx.Node]:
    """The nodes of a graph, and of the regions in it."""
    found: list[fx.Node] = []
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            found += part.graph.nodes
    return found
