"""The checks of a graph, without the rest of it.

In: a graph that checks values, and changes inputs. Out: a graph with the same inputs that makes the
checks and changes nothing; none if they need more than a little of the work, or what the graph has
changed before.
"""

from collections.abc import Collection
from typing import Any, Final, TypeGuard

import torch
import torch.fx as fx

from .ancestry import computed_from
from .checks import CHECK
from .memory import storage_of
from .purity import KEEP, may_drop

_NODES: Final = 64
_ELEMENTS: Final = 1 << 14  # of all tensors that are computed
_METADATA: Final = frozenset(
    {
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_storage_offset.default,
    }
)


def preflight(module: fx.GraphModule, written: Collection[int]) -> fx.GraphModule | None:
    """The checks of a graph; `written` are the storages that it changes somewhere."""
    needed = set(computed_from(node for node in module.graph.nodes if node.target is CHECK))
    if len(needed) > _NODES or not _is_cheap(module.graph, needed):
        return None
    for node in needed:
        if node.op in ("placeholder", "get_attr") or node.target is CHECK:
            continue
        if KEEP in node.meta or not may_drop(node):
            return None
        if _reads(node, written):
            return None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(())
    return fx.GraphModule(module, graph)


def _reads(node: fx.Node, written: Collection[int]) -> bool:
    """Whether a node looks at values that the graph changes; the size of a view is none."""
    if node.target in _METADATA:
        return False
    operands = [each.meta.get("example_value") for each in node.all_input_nodes]
    changed = [each for each in operands if _is_tensor(each) and storage_of(each) in written]
    result = node.meta.get("example_value")
    is_view = _is_tensor(result) and storage_of(result) in written
    return bool(changed) and not is_view


def _is_cheap(graph: fx.Graph, needed: Collection[fx.Node]) -> bool:
    given = {
        storage_of(node.meta["example_value"])
        for node in graph.nodes
        if node.op == "placeholder" and _is_tensor(node.meta["example_value"])
    }
    elements = 0
    for node in needed:
        value = node.meta.get("example_value")
        if node.op.startswith("call_") and _is_tensor(value) and storage_of(value) not in given:
            count: Any = value.numel()
            if type(count) is not int:
                return False
            elements += count
    return elements <= _ELEMENTS


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)
