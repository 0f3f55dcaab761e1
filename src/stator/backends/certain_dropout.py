"""Dropout with probability 1, as AOTAutograd must see it.

In: a graph for AOTAutograd. Out: the same graph, in which such calls multiply by 0, as eager does.
torch's decomposition draws random numbers for them, so that all later ones would be others.
"""

from typing import Any, Final

import torch
import torch.fx as fx

_DROPOUT: Final = frozenset({torch.dropout, torch.nn.functional.dropout})
_NAMES: Final = ("input", "p", "training", "inplace")


def as_products(module: fx.GraphModule) -> None:
    for each in module.modules():
        if isinstance(each, fx.GraphModule):
            _change(each)


def _change(module: fx.GraphModule) -> None:
    graph, changed = module.graph, False
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _DROPOUT:
            continue
        given: dict[str, Any] = dict(zip(_NAMES, node.args, strict=False))
        given |= {
            "training" if name == "train" else name: each for name, each in node.kwargs.items()
        }
        of, p, training = given.get("input"), given.get("p", 0.5), given.get("training", True)
        is_new = isinstance(of, fx.Node) and not _is_same(node, of)
        if p != 1.0 or isinstance(p, fx.Node) or training is not True or not is_new:
            continue
        with graph.inserting_before(node):
            made = graph.call_function(torch.mul, (of, 0.0))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        changed = True
    if changed:
        graph.lint()
        module.recompile()


def _is_same(node: fx.Node, of: fx.Node) -> bool:
    """Whether the answer is the tensor itself: in place, or of nothing."""
    return node.meta.get("example_value") is of.meta.get("example_value")
