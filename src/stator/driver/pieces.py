"""A graph that calls regions, in pieces: each body is compiled alone, once, and called from Python.

Stage: driver, where Inductor gets a graph. In: a graph with calls of regions, and its inputs. Out:
`Pieces`: the bodies, what lies before, between and behind their calls, and a function that calls
them in the order of the graph; None if it is to stay whole. AOTAutograd and Inductor do much for
each call of a body, again and again; so they do it for none, and 48 layers take as long as two.

A graph is taken apart only where that is the same: nothing is written to or left open, no size is
unknown, and in training each piece has one result with a gradient at most (of two, one might be
used without a gradient: parameters would get zeros where they get none).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

import torch
import torch.fx as fx

from stator.diagnostics.artefacts import Title, publish
from stator.driver import graph_keys
from stator.graph.passes.purity import KEEP, WRITTEN
from stator.graph.recording.nested import CONFIG, calls_of, is_call
from stator.torchlib.tensors import DisableTorchFunction

_LEAST: Final = 4  # calls that are saved; for fewer, more pieces to compile cost more
_MOST: Final = 4  # pieces that are no bodies


class _WholeError(Exception):
    """The graph is to stay whole."""


@dataclass(eq=False)
class Piece:
    """A graph of its own."""

    module: fx.GraphModule
    examples: list[Any]


@dataclass(eq=False)
class _Step:
    """A call of a piece."""

    piece: int
    operands: list[fx.Node]
    results: list[fx.Node | None]
    """None where nothing uses it."""


@dataclass(eq=False)
class Pieces:
    """What a graph was taken apart into."""

    inputs: list[fx.Node]
    outputs: list[fx.Node]
    pieces: list[Piece] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)

    def joined(self, compiled: Sequence[Callable[..., Any]], title: Title) -> Callable[..., Any]:
        """The whole graph, of what was made of the pieces."""
        lines = [f"def joined({', '.join(each.name for each in self.inputs)}):"]
        for step, dead in zip(self.steps, self._dead(), strict=True):
            results = ", ".join("_" if each is None else each.name for each in step.results)
            given = ", ".join(each.name for each in step.operands)
            lines.append(f"    {results}, = piece_{step.piece}({given})")
            if dead:
                lines.append(f"    del {', '.join(dead)}")
        lines.append(f"    return ({''.join(f'{each.name}, ' for each in self.outputs)})")
        namespace: dict[str, Any] = {f"piece_{i}": each for i, each in enumerate(compiled)}
        text, file = "\n".join([*lines, ""]), title.file("pieces")
        exec(compile(text, file, "exec"), namespace)
        made: FunctionType = namespace["joined"]
        code = made.__code__.replace(co_name=title.graph, co_qualname=title.graph)
        publish(file, text, code)
        return FunctionType(code, namespace, title.graph)

    def _dead(self) -> list[list[str]]:
        """Behind each step, what no later one uses."""
        needed, found = {*self.outputs, *self.inputs}, []
        for step in reversed(self.steps):
            made = [each for each in step.results if each is not None]
            here = dict.fromkeys(each for each in (*step.operands, *made) if each not in needed)
            found.append([each.name for each in here])
            needed.update(here)
        return found[::-1]


def taken_apart(module: fx.GraphModule, examples: Sequence[Any]) -> Pieces | None:
    """The pieces of a graph; None if it is to stay whole."""
    calls = calls_of(module.graph)
    bodies = {str(node.args[1]) for node in calls}
    if len(calls) - len(bodies) < _LEAST:
        return None
    try:
        with DisableTorchFunction():
            return _Cutter(module, examples).pieces
    except _WholeError:
        return None


class _Cutter:
    """One graph that is taken apart."""

    def __init__(self, module: fx.GraphModule, examples: Sequence[Any]) -> None:
        self._module = module
        nodes = list(module.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        (results,) = nodes[-1].args
        assert isinstance(results, tuple | list)
        outputs = [each for each in results if isinstance(each, fx.Node)]
        if len(outputs) != len(results):
            raise _WholeError
        self.pieces = Pieces(inputs, outputs)
        self._given = dict(zip(inputs, examples, strict=True))
        for example in examples:
            _check_static(example)
        self._trains = torch.is_grad_enabled() and any(each.requires_grad for each in examples)
        self._bodies: dict[str, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self._others = 0
        waiting: list[fx.Node] = []
        for node in nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            if is_call(node):
                self._cut(waiting)
                waiting = []
                self._call(node)
            elif not _is_result(node):
                _check_pure(node)
                waiting.append(node)
        self._cut(waiting)
        if self._others > _MOST:
            raise _WholeError

    def _call(self, node: fx.Node) -> None:
        name, operands = str(node.args[1]), list(node.args[2:])
        if not all(isinstance(each, fx.Node) for each in operands):
            raise _WholeError
        results: list[fx.Node | None] = [None] * len(node.meta["example_value"])
        for user in node.users:
            if not _is_result(user):
                raise _WholeError
            results[user.args[1]] = user  # type: ignore[index]
        if name not in self._bodies:
            body = getattr(self._module, name)
            if CONFIG in body.meta:
                raise _WholeError
            self._check_gradients(node.meta["example_value"])
            graph = fx.Graph()
            graph.output(graph.graph_copy(body.graph, {}))
            self._bodies[name] = self._piece(fx.GraphModule(body, graph), operands)
        self.pieces.steps.append(_Step(self._bodies[name], operands, results))  # type: ignore[arg-type]

    def _cut(self, nodes: list[fx.Node]) -> None:
        """What lies between two calls becomes a piece."""
        if not nodes:
            return
        here = set(nodes)
        made = [node for node in nodes if any(user not in here for user in node.users)]
        operands: dict[fx.Node, None] = {}
        for node in nodes:
            operands.update(
                dict.fromkeys(each for each in node.all_input_nodes if each not in here)
            )
        tensors = [each for each in operands if each.op != "get_attr"]
        values = [node.meta.get("example_value") for node in made]
        for value in values:
            _check_static(value)
        self._check_gradients(values)
        graph = fx.Graph()
        known: dict[fx.Node, fx.Node] = {}
        for each in tensors:
            known[each] = graph.placeholder(each.name, each.type)
            known[each].meta = dict(each.meta)
        for each in operands:
            if each.op == "get_attr":
                known[each] = graph.node_copy(each)
        for node in nodes:
            known[node] = graph.node_copy(node, known.__getitem__)
        graph.output(tuple(known[node] for node in made))
        number = self._same(graph)
        if number is None:
            number = self._piece(fx.GraphModule(self._module, graph), tensors)
            self._others += 1
            if self._last is not None:
                self._known[self._last] = number
        self.pieces.steps.append(_Step(number, tensors, list(made)))

    def _same(self, graph: fx.Graph) -> int | None:
        """A piece that a backend could not tell from this one."""
        try:
            self._last: tuple[Any, ...] | None = tuple(graph_keys.nodes(graph))
        except graph_keys.IncomparableError:
            self._last = None
        return None if self._last is None else self._known.get(self._last)

    def _piece(self, module: fx.GraphModule, operands: Sequence[Any]) -> int:
        made = [self._example(each) for each in operands]
        self.pieces.pieces.append(Piece(module, made))
        return len(self.pieces.pieces) - 1

    def _example(self, node: fx.Node) -> torch.Tensor:
        """As the piece gets it: where a tensor comes from is not the backend's business."""
        if node in self._given:
            given: torch.Tensor = self._given[node]
            return given
        value: Any = node.meta.get("example_value")
        _check_static(value)
        made: torch.Tensor = value.detach()
        return made.requires_grad_() if value.requires_grad else made

    def _check_gradients(self, results: Sequence[Any]) -> None:
        if self._trains and sum(each.requires_grad for each in results) > 1:
            raise _WholeError


def _is_result(node: fx.Node) -> bool:
    """Whether a node takes a result of a region's call."""
    parent = node.args[0] if node.args else None
    named = getattr(node.target, "__name__", "") == "getitem"
    return named and isinstance(parent, fx.Node) and is_call(parent)


def _check_pure(node: fx.Node) -> None:
    changes = KEEP in node.meta or WRITTEN in node.meta or "unbacked_bindings" in node.meta
    if changes or node.op == "call_module" or "recompute" in node.meta:
        raise _WholeError


def _check_static(value: Any) -> None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        raise _WholeError
    numbers: Iterator[Any] = iter((*value.shape, *value.stride(), value.storage_offset()))
    if not all(type(each) is int for each in numbers):
        raise _WholeError


__all__ = ["Piece", "Pieces", "taken_apart"]
