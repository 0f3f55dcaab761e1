"""Results of regions through which no gradient comes: their bodies detach them.

In: a graph with calls of bodies, before it is closed, and its results. Out: the same, with bodies
that say which of their results have a gradient. Torch's operator takes what gets none for something
that gets zeros: parameters would get zeros where eager leaves None, and nan where a derivative is
infinite. Calls that differ in this call bodies of their own.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import tensors_in
from stator.graph.passes.purity import KEEP, WRITTEN
from stator.graph.recording import nested
from stator.graph.recording.output import OutputGraph
from stator.torchlib.tensors import DisableTorchFunction


def detach_results(graph: OutputGraph, outputs: Sequence[Any]) -> None:
    """Detaches the results of bodies that no gradient of the graph's results comes to."""
    calls = list(nested.calls_of(graph.graph))
    with DisableTorchFunction():
        if not any(map(_has_gradient, calls)):
            return
        reached = _Reached(graph)
        roots = [each for each in tensors_in(list(outputs)) if each.requires_grad]
        without = reached.through(graph.graph, {graph.node(each) for each in roots})
        groups: dict[str, dict[frozenset[int], list[fx.Node]]] = {}
        for call in calls:
            groups.setdefault(_name(call), {}).setdefault(without[call], []).append(call)
        for name, variants in groups.items():
            _split(graph, name, variants)


class _Reached:
    """What gradients come to, in a graph and in the bodies that it calls."""

    def __init__(self, graph: OutputGraph) -> None:
        self._regions = graph.regions
        self._known: dict[tuple[str, frozenset[int]], frozenset[int]] = {}

    def through(self, graph: fx.Graph, found: set[fx.Node]) -> dict[fx.Node, frozenset[int]]:
        """For each call of a body, its results without a gradient; what has one is added."""
        without: dict[fx.Node, frozenset[int]] = {}
        for node in reversed(graph.nodes):
            if nested.is_call(node):
                results = node.meta["example_value"]
                having = frozenset(i for i, each in enumerate(results) if each.requires_grad)
                used = frozenset(each.args[1] for each in node.users if each in found)
                without[node] = having - used
                needed = self._operands(_name(node), having & used)
                given: Any = (node.args[2 + place] for place in needed)
            elif node in found or node.meta.get(WRITTEN) or KEEP in node.meta:
                # What a tensor is that is written to can't be told from the arguments of nodes.
                given = node.all_input_nodes
            elif node.target is torch.autograd.grad:  # the graph itself goes back from there
                given = node.all_input_nodes
            else:
                continue
            found.update(
                each for each in given if isinstance(each, fx.Node) and _has_gradient(each)
            )
        return without

    def _operands(self, name: str, results: frozenset[int]) -> frozenset[int]:
        """Which operands get a gradient if these results do."""
        if (name, results) not in self._known:
            body: Any = self._regions[name]
            outputs = _outputs(body.graph)
            found = {outputs[place] for place in results}
            self.through(body.graph, found)
            inputs = (each for each in body.graph.nodes if each.op == "placeholder")
            self._known[name, results] = frozenset(
                place for place, each in enumerate(inputs) if each in found
            )
        return self._known[name, results]


def _split(graph: OutputGraph, name: str, variants: dict[frozenset[int], list[fx.Node]]) -> None:
    """Gives the calls of a body what fits them; most of them keep the body that there is."""
    body: Any = graph.regions[name]
    most = max(variants, key=lambda without: len(variants[without]))
    for without, calls in variants.items():
        if without != most:
            copy = fx.Graph()
            copy.output(copy.graph_copy(body.graph, {}))
            other = fx.GraphModule(graph.attributes_of(copy), copy)
            other.meta.update(body.meta)
            _detach(other, without)
            title = nested.add(graph, other)
            for call in calls:
                with graph.graph.inserting_before(call):
                    held = graph.graph.create_node("get_attr", title)
                before: Any = call.args[0]
                held.meta.update(before.meta)
                call.args = (held, title, *call.args[2:])
                graph.graph.erase_node(before)
    _detach(body, most)
    for without, calls in variants.items():
        for call in calls:
            _note(call, without)


def _detach(body: fx.GraphModule, places: frozenset[int]) -> None:
    if not places:
        return
    outputs = list(_outputs(body.graph))
    last = next(iter(reversed(body.graph.nodes)))
    for place in places:
        before = outputs[place]
        with body.graph.inserting_before(last):
            made = body.graph.call_method("detach", (before,))
        made.meta.update(before.meta)
        made.meta.pop("unbacked_bindings", None)
        made.meta["example_value"] = before.meta["example_value"].detach()
        outputs[place] = made
    last.args = (tuple(outputs),)
    body.recompile()


def _note(call: fx.Node, places: frozenset[int]) -> None:
    """Says of the results of a call that they have no gradient."""
    if not places:
        return
    results = call.meta["example_value"]
    call.meta["example_value"] = made = tuple(
        each.detach() if place in places else each for place, each in enumerate(results)
    )
    for user in call.users:
        user.meta["example_value"] = made[user.args[1]]  # type: ignore[index]


def _outputs(graph: fx.Graph) -> Sequence[fx.Node]:
    last: Any = next(iter(reversed(graph.nodes)))
    found: Sequence[fx.Node] = last.args[0]
    return found


def _name(call: fx.Node) -> str:
    return str(call.args[1])


def _has_gradient(node: fx.Node) -> bool:
    """Whether what a node answers requires one, if it is known."""
    if "example_value" not in node.meta:
        return node.op not in ("get_attr", "output")
    return any(each.requires_grad for each in _tensors(node))


def _tensors(node: fx.Node) -> Iterable[torch.Tensor]:
    return tensors_in(node.meta["example_value"])


__all__ = ["detach_results"]
