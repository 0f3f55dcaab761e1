"""Graphs inside of graphs: the bodies of regions such as `torch.autograd.Function` and checkpoints.

In: an `OutputGraph`, and calls recorded while the subgraph is open. Out: a graph module whose
inputs are the outer tensors that were used, in the order of their first use.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import version_unseen
from stator.graph.passes.purity import may_drop
from stator.graph.recording.arguments import Arguments, Handle
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.output import OutputGraph
from stator.graph.unknown.symbols import SymbolicNumber, Symbols
from stator.torchlib.tensors import DisableTorchFunction


class InnerArguments(Arguments):
    """Arguments of a subgraph: what is outside of it becomes an input when it is first used."""

    def __init__(self, graph: fx.Graph, symbols: Symbols, outer: Arguments) -> None:
        super().__init__(graph, symbols)
        self._outer = outer
        self.inputs: list[tuple[torch.Tensor | SymbolicNumber | Handle, int | None]] = []
        self._numbers: dict[fx.Node, fx.Node] = {}  # by the outer one

    def tracks(self, value: object) -> bool:
        return super().tracks(value) or self._outer.tracks(value)

    def is_outer(self, value: object) -> bool:
        """Whether something was there before the region."""
        return self._outer.tracks(value)

    def is_given(self, value: object) -> bool:
        """Whether something was there before the call that is traced."""
        return self._outer.is_given(value)

    def node(self, tensor: torch.Tensor | Handle) -> fx.Node:
        if not super().tracks(tensor) and self._outer.tracks(tensor):
            self._add_input(tensor)
        return super().node(tensor)

    def number(self, number: SymbolicNumber) -> fx.Node | int | float | bool:
        outer = self._outer.number(number)
        if not isinstance(outer, fx.Node):
            return outer
        if outer not in self._numbers:
            self._numbers[outer] = self._placeholder(number)
            self.inputs.append((number, None))
        return self._numbers[outer]

    def _add_input(self, tensor: torch.Tensor | Handle) -> None:
        self.bind(tensor, self._placeholder(tensor))
        before = version_unseen(tensor) if isinstance(tensor, torch.Tensor) else None
        self.inputs.append((tensor, before))

    def _placeholder(self, value: Any) -> fx.Node:
        last = None
        for node in self._graph.nodes:
            if node.op != "placeholder":
                break
            last = node
        if last is None:
            where = self._graph.inserting_before(next(iter(self._graph.nodes), None))
        else:
            where = self._graph.inserting_after(last)
        with where:
            made = self._graph.placeholder(f"input_{len(self.inputs)}")
        made.meta["example_value"] = value
        return made


class Subgraph:
    """While it is open (`with`), the outer graph records into it."""

    def __init__(self, outer: OutputGraph) -> None:
        self._outer = outer
        self.graph = fx.Graph()
        self.arguments = InnerArguments(self.graph, outer.symbols, outer.arguments)

    def __enter__(self) -> "Subgraph":
        self._saved = self._outer.graph, self._outer.arguments
        self._outer.graph, self._outer.arguments = self.graph, self.arguments
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._outer.graph, self._outer.arguments = self._saved

    @property
    def inputs(self) -> list[torch.Tensor | SymbolicNumber | Handle]:
        return [value for value, _ in self.arguments.inputs]

    def take(self, parts: Sequence[torch.Tensor], name: str) -> None:
        """Tensors of its own that are given to it, as its first inputs."""
        for index, part in enumerate(parts):
            node = self.graph.placeholder(f"{name}_{index}")
            node.meta["example_value"] = part
            self.arguments.bind(part, node)

    def require(self, tensor: torch.Tensor) -> fx.Node:
        """The node of a tensor in the subgraph; an outer one becomes an input."""
        return self.arguments.node(tensor)

    def finish(self, outputs: Any) -> fx.GraphModule:
        """Closes the subgraph; `outputs` may be nested tuples of tensors and None."""
        if any(
            isinstance(value, torch.Tensor) and version_unseen(value) != before
            for value, before in self.arguments.inputs
        ):
            raise Unsupported("a tensor from outside is changed in a region of its own")
        with DisableTorchFunction():
            if not self._outer.constants_kept(self.graph, outputs):
                raise Unsupported("a constant is changed or returned in a region of its own")
        self.graph.output(self.arguments.of(outputs))
        for node in reversed(self.graph.nodes):
            if not node.users and may_drop(node):
                self.graph.erase_node(node)
        return fx.GraphModule(self._outer.attributes_of(self.graph), self.graph)
