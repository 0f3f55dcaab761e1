"""Graphs inside of graphs: the bodies of regions such as `torch.autograd.Function` and checkpoints.

In: an `OutputGraph`, and calls recorded while the subgraph is open. Out: a graph module whose
inputs are the outer tensors that were used, in the order of their first use.
"""

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
import torch.fx as fx
from torch.fx.proxy import GraphAppendingTracer

from stator.graph.fakes.inputs import version_unseen
from stator.graph.passes.purity import may_drop
from stator.graph.recording.arguments import Arguments, Handle
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.output import OutputGraph
from stator.graph.unknown.symbols import SymbolicNumber, Symbols, Written, describe
from stator.torchlib.shapes import sympy_interp
from stator.torchlib.tensors import DisableTorchFunction


class InnerArguments(Arguments):
    """Arguments of a subgraph: what is outside of it becomes an input when it is first used."""

    def __init__(self, graph: fx.Graph, symbols: Symbols, outer: Arguments) -> None:
        super().__init__(graph, symbols)
        self._outer = outer
        self.inputs: list[tuple[torch.Tensor | SymbolicNumber | Handle, int | None]] = []
        self._numbers: dict[fx.Node, fx.Node] = {}  # by the outer one
        self._own: dict[Any, fx.Node] = {}  # numbers that only the region knows, by expression
        self.lifted: list[fx.Node] = []  # the placeholders of `inputs`

    def tracks(self, value: object) -> bool:
        return super().tracks(value) or self._outer.tracks(value)

    def is_made(self, value: object) -> bool:
        """Whether the region itself has made something."""
        given = any(each is value for each, _ in self.inputs)
        return super().tracks(value) and not given

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

    def take_number(self, number: torch.SymInt, node: fx.Node) -> None:
        """A number that is given to the region, and means nothing outside of it."""
        self._own[number.node.expr] = node

    def number(self, number: SymbolicNumber) -> fx.Node | int | float | bool:
        if self._own and not self._own.keys().isdisjoint(number.node.expr.free_symbols):
            return self._expression(number.node.shape_env, number.node.expr)
        outer = self._outer.number(number)
        if not isinstance(outer, fx.Node):
            return outer
        if outer not in self._numbers:
            self._numbers[outer] = self._placeholder(number)
            self.inputs.append((number, None))
        return self._numbers[outer]

    def _expression(self, shape_env: Any, expr: Any) -> fx.Node:
        """What is computed from numbers of the region's own, in the region."""
        if expr not in self._own:
            tracer = GraphAppendingTracer(self._graph)
            known: dict[Any, Any] = {}
            for symbol in sorted(expr.free_symbols, key=str):
                value: fx.Node | float | None = self._own.get(symbol)
                if value is None:
                    hint = shape_env.backed_var_to_val.get(symbol)
                    value = self.number(shape_env.create_symintnode(symbol, hint=hint))
                known[symbol] = fx.Proxy(value, tracer) if isinstance(value, fx.Node) else value
            last = next(iter(reversed(self._graph.nodes)), None)
            made = sympy_interp(Written, known, expr)
            new = itertools.takewhile(lambda each: each is not last, reversed(self._graph.nodes))
            describe(reversed(list(new)))
            self._own[expr] = made.node
        return self._own[expr]

    def key(self, value: torch.Tensor | SymbolicNumber | Handle) -> object:
        """The same for what is one input: outside, one number may be several objects."""
        if isinstance(value, torch.Tensor | Handle):
            return id(value)
        return self._outer.number(value)

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
        self.lifted.append(made)
        return made


class Subgraph:
    """While it is open (`with`), the outer graph records into it."""

    def __init__(self, outer: OutputGraph) -> None:
        self._outer = outer
        self.graph = fx.Graph()
        self._taken: list[torch.Tensor] = []
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

    def tensors_from_outside(self) -> list[torch.Tensor]:
        """Those that it uses, or was given."""
        lifted = [value for value, _ in self.arguments.inputs if isinstance(value, torch.Tensor)]
        return [*self._taken, *lifted]

    def take(self, parts: Sequence[torch.Tensor | torch.SymInt], name: str) -> None:
        """Tensors and numbers of its own that are given to it, as its first inputs."""
        for index, part in enumerate(parts):
            node = self.graph.placeholder(f"{name}_{index}")
            node.meta["example_value"] = part
            if isinstance(part, torch.Tensor):
                self._taken.append(part)
                self.arguments.bind(part, node)
            else:
                self.arguments.take_number(part, node)

    def require(self, tensor: torch.Tensor) -> fx.Node:
        """The node of a tensor in the subgraph; an outer one becomes an input."""
        return self.arguments.node(tensor)

    def arrange(self, inputs: Sequence[torch.Tensor | SymbolicNumber | Handle]) -> None:
        """Makes these its inputs, in this order, behind those that it was given (`take`).

        All that it uses has to be among them.
        """
        nodes = [self.arguments.of(value) for value in inputs]
        wanted = [node for node in nodes if isinstance(node, fx.Node)]
        assert set(wanted) >= set(self.arguments.lifted)
        for node, following in itertools.pairwise(wanted):
            node.append(following)

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


def unite(parts: Sequence[Subgraph]) -> list[torch.Tensor | SymbolicNumber | Handle]:
    """What several subgraphs get from outside, once each; it becomes the inputs of all of them."""
    found: dict[object, torch.Tensor | SymbolicNumber | Handle] = {}
    for part in parts:
        for value in part.inputs:
            found.setdefault(part.arguments.key(value), value)
    values = list(found.values())
    for part in parts:
        part.arrange(values)
    return values
