"""The checks of a graph, without the rest of it.

In: a graph that checks values. Out: a graph with the same inputs that makes the checks, returns
what is compared, and changes nothing; none if that needs more than a little of the work, or what
the graph has changed before.
"""

import math
from collections.abc import Collection
from typing import Any, Final, TypeGuard

import torch
import torch.fx as fx

from stator.graph.fakes.memory import storage_of
from stator.graph.passes.ancestry import computed_from
from stator.graph.passes.purity import KEEP, may_drop
from stator.graph.recording.replay import NotReplayableError, hint
from stator.graph.unknown.checks import is_check

_NODES: Final = 64
_ELEMENTS: Final = 1 << 14  # of all tensors that are computed
_METADATA: Final = frozenset(
    {
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_storage_offset.default,
    }
)


def preflight(
    module: fx.GraphModule, written: Collection[int], compared: int = 0
) -> fx.GraphModule | None:
    """The checks of a graph; `written` are the storages that it changes somewhere.

    So many of its results, the last ones, are compared with what they were taken to be.
    """
    nodes = module.graph.nodes
    results = next(iter(reversed(nodes))).args[0]
    assert isinstance(results, tuple)
    answers = results[len(results) - compared :]
    checks = [node for node in nodes if is_check(node)]
    needed = set(computed_from([*checks, *(each for each in answers if type(each) is fx.Node)]))
    if len(needed) > _NODES or not _is_cheap(module.graph, needed):
        return None
    for node in needed:
        if node.op in ("placeholder", "get_attr") or is_check(node):
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
            copies[node].meta = {}  # nothing of the trace is kept alive
    graph.output(tuple(copies[each] for each in answers if type(each) is fx.Node))
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
            elements += max(map(_elements, (value, *map(_value, node.all_input_nodes))))
    return elements <= _ELEMENTS


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value")


def _elements(value: object) -> int:
    """How many there are; none if that depends on values: it is computed from what has some."""
    try:
        return math.prod(map(hint, value.shape)) if _is_tensor(value) else 0
    except NotReplayableError:
        return 0


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)
