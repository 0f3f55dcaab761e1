"""Calls of regions in a graph: one body, called as often as the program does.

In: a finished body, its operands and results. Out: a node `invoke_subgraph(body, name, *operands)`,
as torch.compile's graphs have it, so that backends compile the body once. A body that is called
once is put in the place of its call at the end.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx as fx

from stator.graph.passes.drawing import random_nodes
from stator.graph.passes.purity import DRAWS, REFUSES, WRITTEN
from stator.graph.recording.origins import note_origin
from stator.graph.recording.output import OutputGraph
from stator.torchlib.operators import INVOKE_SUBGRAPH
from stator.torchlib.tensors import DisableTorchFunction

CONFIG = "nested_region_config"  # where torch looks for the options of a region


def add(graph: OutputGraph, body: fx.GraphModule, options: Any = None) -> str:
    """A body becomes part of the graph; the name by which it is called."""
    name = f"subgraph_{sum(each.startswith('subgraph_') for each in graph.regions)}"
    graph.regions[name] = body
    if options is not None:
        body.meta[CONFIG] = options
    return name


def call(
    graph: OutputGraph,
    name: str,
    operands: Sequence[Any],
    results: Sequence[torch.Tensor],
    *,
    stack_trace: str | None,
) -> fx.Node:
    """Records a call of a body; the results are fakes of what it computes."""
    with DisableTorchFunction():
        arguments = graph.arguments.of(tuple(operands))
        body = graph.graph.create_node("get_attr", name)
        node = graph.graph.call_function(INVOKE_SUBGRAPH, (body, name, *arguments))
        node.meta["example_value"] = tuple(results)
        for each in (body, node):
            note_origin(each, graph.modules, stack_trace)
        held: Any = graph.regions[name]
        drawn = random_nodes(held.graph)
        if drawn:
            node.meta[DRAWS] = drawn
        options = held.meta.get(CONFIG)
        if options is not None:
            node.meta["custom"] = {CONFIG: options}
        graph.keep(node)
        node.meta[WRITTEN] = frozenset()  # a body that changes what it is given is no region
        graph.arguments.bind(tuple(results), node)
    return node


def is_call(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is INVOKE_SUBGRAPH


def calls_of(graph: fx.Graph) -> Sequence[fx.Node]:
    """In their order."""
    found: Sequence[fx.Node] = graph.find_nodes(op="call_function", target=INVOKE_SUBGRAPH)
    return found


def inline_single(graph: OutputGraph) -> None:
    """Bodies that one place calls go there: a backend gains nothing by keeping them apart."""
    bodies = [each for each in graph.regions.values() if isinstance(each, fx.GraphModule)]
    whole = (graph.graph, *(body.graph for body in bodies))
    counts = Counter(str(node.args[1]) for each in whole for node in calls_of(each))
    for each in whole:
        changed = False
        while (node := _single(each, counts)) is not None:
            before = node.prev
            made = _put(each, node, graph.regions[str(node.args[1])])
            if REFUSES in node.meta:
                graph.inlined[node] = _refusing(before, node)
            changed = True
            if each is graph.graph:
                results = node.meta["example_value"]
                for result, instead in zip(results, made, strict=True):
                    graph.arguments.rebind(result, instead)
            del counts[str(node.args[1])]
            _erase(node)
        if changed and each is not graph.graph:
            next(body for body in bodies if body.graph is each).recompile()


def _single(graph: fx.Graph, counts: Counter[str]) -> fx.Node | None:
    return next((node for node in calls_of(graph) if counts[str(node.args[1])] == 1), None)


def _put(graph: fx.Graph, node: fx.Node, body: Any) -> Sequence[fx.Node]:
    """Copies a body before a call of it; what the call answers."""
    inputs = [each for each in body.graph.nodes if each.op == "placeholder"]
    known: dict[fx.Node, Any] = dict(zip(inputs, node.args[2:], strict=True))
    with graph.inserting_before(node):
        made: Any = graph.graph_copy(body.graph, known)
    for user in list(node.users):
        user.replace_all_uses_with(made[user.args[1]])
        graph.erase_node(user)
    return tuple(made)


def _refusing(first: fx.Node, last: fx.Node) -> list[fx.Node]:
    """The nodes between two others that may refuse their values."""
    found = []
    while (first := first.next) is not last:
        if REFUSES in first.meta:
            found.append(first)
    return found


def _erase(node: fx.Node) -> None:
    body = node.args[0]
    node.graph.erase_node(node)
    if isinstance(body, fx.Node) and not body.users:
        body.graph.erase_node(body)


def as_modules(module: fx.GraphModule) -> bool:
    """Makes calls of regions calls of modules, in place; whether there are any.

    For graphs that run as they are: torch's operator has a gradient only where a backend traces it.
    """
    found = False
    for part in list(module.modules()):
        if isinstance(part, fx.GraphModule) and modules_in(part.graph):
            found = True
            part.recompile()
    return found


def modules_in(graph: fx.Graph) -> bool:
    """The same in one graph, whose code is still to be made."""
    calls = calls_of(graph)
    for node in calls:
        with graph.inserting_before(node):
            made = graph.call_module(str(node.args[1]), tuple(node.args[2:]))
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        _erase(node)
    return bool(calls)
