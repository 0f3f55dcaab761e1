"""Inputs that share memory, of which the graph changes one.

In: a finished graph, and which of its inputs are views of one memory. Out: a graph that gets this
memory as one flat input and makes the views itself, so that every backend sees what is changed by
what. Backends that get such views one by one either refuse them, or need to know more of their
common base than guards tell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import InputSource
from stator.graph.fakes.memory import extent
from stator.graph.recording.output import Input, Recorded


class Place(NamedTuple):
    """Where a tensor without gaps lies in memory."""

    position: int
    """Which input of the graph it is."""
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        return int(self.offset + extent(self.size, self.stride))

    @property
    def order(self) -> list[int]:
        """Its dimensions, the outermost one first."""
        return sorted(range(len(self.size)), key=lambda i: (-self.stride[i], -self.size[i], i))

    @property
    def is_dense(self) -> bool:
        step = 1
        for dim in reversed(self.order):
            if self.size[dim] != 1 and self.stride[dim] != step:
                return False
            step *= self.size[dim]
        return True


@dataclass(frozen=True)
class Group:
    """Inputs that lie in one memory, views of one tensor."""

    places: tuple[Place, ...]

    @property
    def begin(self) -> int:
        return min(each.offset for each in self.places)

    @property
    def length(self) -> int:
        return max(each.end for each in self.places) - self.begin


@dataclass(frozen=True)
class SharedInputs:
    """The groups among the inputs of a graph."""

    groups: tuple[Group, ...] = ()

    def lowered(self, recorded: Recorded) -> "tuple[Recorded, fx.GraphModule | None]":
        """The graph of flat inputs, which come last; and the one that takes the views."""
        if not self.groups:
            return recorded, None
        plain = fx.GraphModule(recorded.module, _copy(recorded.module.graph))
        graph = recorded.module.graph
        given = [node for node in graph.nodes if node.op == "placeholder"]
        dropped = {each.position for group in self.groups for each in group.places}
        inputs = [each for i, each in enumerate(recorded.inputs) if i not in dropped]
        examples = [each for i, each in enumerate(recorded.example_inputs) if i not in dropped]
        last = given[-1]
        flat: list[fx.Node] = []
        for number, group in enumerate(self.groups):
            like = recorded.example_inputs[group.places[0].position]
            with recorded.fake_mode:
                example = torch.empty(group.length, dtype=like.dtype, device=like.device)
            with graph.inserting_after(last):
                last = graph.create_node("placeholder", f"memory_{number}", type_expr=torch.Tensor)
            last.meta.update(example_value=example, tensor_dict={})
            last._dynamo_source = InputSource(last.name)
            flat.append(last)
            examples.append(example)
            inputs.append(Input(last.name, recorded.inputs[group.places[0].position].value))
        for group, memory in zip(self.groups, flat, strict=True):
            for place in group.places:
                with graph.inserting_after(last):
                    last = _view(graph, memory, place, group.begin)
                last.meta["example_value"] = given[place.position].meta["example_value"]
                given[place.position].replace_all_uses_with(last)
                graph.erase_node(given[place.position])
        recorded.module.recompile()
        return Recorded(recorded.module, inputs, examples, recorded.fake_mode), plain

    def around(
        self, compiled: Callable[..., Sequence[Any]], plain: fx.GraphModule | None
    ) -> Callable[..., Sequence[Any]]:
        """The compiled graph as a function of the views."""
        if plain is None:
            return compiled
        groups = self.groups
        dropped = {each.position for group in groups for each in group.places}

        def graph_of_views(*args: Any) -> Sequence[Any]:
            if not all(_is_one(group, args) for group in groups):
                # Their base is the same, but somebody has given one of them other memory.
                return plain(*args)  # type: ignore[no-any-return]
            with torch.no_grad():
                flat = [_flat(group, args) for group in groups]
            return compiled(*(e for i, e in enumerate(args) if i not in dropped), *flat)

        return graph_of_views


def _copy(graph: fx.Graph) -> fx.Graph:
    made = fx.Graph()
    made.output(made.graph_copy(graph, {}))
    return made


def _view(graph: fx.Graph, memory: fx.Node, place: Place, begin: int) -> fx.Node:
    """A part of the memory, in the order of its dimensions, and then in the tensor's own."""
    start = place.offset - begin
    order = place.order
    made = graph.call_method("narrow", (memory, 0, start, place.end - place.offset))
    if len(order) == 1:
        return made
    made = _behind(graph, made, "view", *(place.size[dim] for dim in order))
    inverse = [order.index(dim) for dim in range(len(order))]
    return made if inverse == sorted(inverse) else _behind(graph, made, "permute", *inverse)


def _behind(graph: fx.Graph, node: fx.Node, name: str, *args: int) -> fx.Node:
    with graph.inserting_after(node):
        return graph.call_method(name, (node, tuple(args)))


def _is_one(group: Group, args: Sequence[Any]) -> bool:
    memory = {args[each.position].untyped_storage()._cdata for each in group.places}
    return len(memory) == 1


def _flat(group: Group, args: Sequence[Any]) -> torch.Tensor:
    """The memory, as one more view: all views of a tensor count their changes together."""
    first: torch.Tensor = args[group.places[0].position]
    return first.as_strided((group.length,), (1,), group.begin)
