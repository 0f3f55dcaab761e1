"""Graphs that are right only for some values: what to do when a check in them fails.

In: a finished graph and its inputs. Out: a `Retry`: how to call the compiled graph so that, if it
raises, everything is as it was before, and the program itself can run instead. Its exceptions are
then eager's own, and values for which the graph is wrong get eager's results.

What a graph may change: inputs, random number generators, torch's modes and flags (`scopes` puts
those back). A graph that does anything else is not tried twice. If it changes inputs, and its
checks need little of it (`preflight`), they are made before it runs; otherwise the inputs are
copied.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.inputs import FakeInput
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.drawing import is_switched_off, nodes_of
from stator.graph.passes.preflight import preflight
from stator.graph.passes.purity import (
    DRAWS,
    EFFECTS,
    KEEP,
    ONCE,
    RANDOM,
    UNCOUNTED,
    is_torch_function,
)
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.output import OutputGraph, Recorded
from stator.graph.recording.scopes import Scopes, scopes_of
from stator.graph.recording.state import State, drop_cast_weights
from stator.graph.unknown.checks import failed_check
from stator.torchlib.autograd import set_version_counter
from stator.torchlib.modes import (
    enter_autocast,
    enter_inference_mode,
    exit_autocast,
    exit_inference_mode,
    set_grad_enabled,
)
from stator.torchlib.operators import OpOverload

_ASSERTS: Final = frozenset({"_assert", "_assert_scalar", "_check", "_assert_tensor_metadata"})
_WRITES: Final = frozenset({"setitem", "__setitem__"})
_STATES: Final = frozenset(
    map(
        id,
        (
            set_grad_enabled,
            enter_autocast,
            exit_autocast,
            enter_inference_mode,
            exit_inference_mode,
            drop_cast_weights,
        ),
    )
)


class Refused(Exception):  # noqa: N818  (an outcome, not a fault)
    """A graph has raised, and nothing has happened: the program itself can run instead.

    The place is where the program asks for what has turned out to be otherwise. If there is none,
    the program most likely raises an exception. `ran` tells whether the graph was run for nothing.
    """

    def __init__(self, place: object = None, *, ran: bool = False) -> None:
        super().__init__()
        self.place = place
        self.ran = ran


@dataclass(eq=False)
class Question:
    """The checks of a graph, for calls in which they are made before it runs."""

    ask: Callable[..., Sequence[Any]]
    first: bool = False
    """Whether they are, from now on."""


@dataclass(frozen=True)
class Retry:
    """What to save before a graph runs: some of its inputs, random numbers."""

    changed: tuple[int, ...] = ()
    random: bool = False
    checks: Callable[..., object] | None = None
    """All that is checked, made before the graph runs. Then nothing needs to be saved."""
    expected: tuple[bool, ...] = ()
    """What the last outputs of the graph must be; they are for this only."""
    places: tuple[object, ...] = ()
    """Where the program asks for each of the conditions that the graph checks, then for these."""
    early: bool = False
    """Only what happens before the graph may refuse: once it runs, it is right."""
    question: Question | None = field(default=None, compare=False)
    """What can be asked before the graph runs, if it is often run for nothing."""
    plain: bool = False
    """The graph takes nothing for granted: if it raises, so may the program, which runs then."""

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The compiled graph, as a function that raises `Refused` for any exception of its own."""
        if self.early:
            return graph
        if self.checks is not None:
            return self._checked_before(graph, self.checks)
        changed, random, expected = self.changed, self.random, self.expected
        places = self.places[len(self.places) - len(expected) :]
        question = self.question

        def checked_graph(*args: Any) -> Sequence[Any]:
            if question is not None and question.first:
                self._ask(question.ask, args)
            state = State.capture(rng=True) if random else None
            saved = [_Saved(args[index]) for index in changed]
            try:
                outputs = graph(*args)
                if not expected:
                    return outputs
                wrong = _first_other(outputs[-len(expected) :], expected)
                if wrong is None:
                    return outputs[: -len(expected)]
                place = places[wrong]
            except Exception as error:  # of the graph, which may be wrong here
                if is_interrupt(error):
                    raise
                place = self._place(error)
            if state is not None:
                state.restore()
            for each in saved:
                each.restore()
            raise Refused(place, ran=True)

        return checked_graph

    def _place(self, error: BaseException) -> object:
        number = failed_check(error)
        return None if number is None or number >= len(self.places) else self.places[number]

    def _checked_before(
        self, graph: Callable[..., Sequence[Any]], checks: Callable[..., object]
    ) -> Callable[..., Sequence[Any]]:
        def checked_graph(*args: Any) -> Sequence[Any]:
            self._ask(checks, args)
            return graph(*args)

        return checked_graph

    def _ask(self, checks: Callable[..., Any], args: Sequence[Any]) -> None:
        """Makes the checks of the graph alone."""
        expected = self.expected
        try:
            with torch.no_grad():
                answers = checks(*args)
            wrong = _first_other(answers, expected) if expected else None
            if wrong is None:
                return
            place = self.places[len(self.places) - len(expected) :][wrong]
        except Exception as error:
            if is_interrupt(error):
                raise
            place = self._place(error)
        raise Refused(place)


def _first_other(outputs: Sequence[Any], expected: tuple[bool, ...]) -> int | None:
    """Which tensor of one bool is not as it was taken to be."""
    pairs = enumerate(zip(outputs, expected, strict=True))
    return next((i for i, (output, answer) in pairs if bool(output) is not answer), None)


class _Saved:
    """What a tensor holds."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.version = None if tensor.is_inference() else tensor._version
        self.values = tensor.detach().clone()
        self.is_plain = not tensor.requires_grad

    def restore(self) -> None:
        if self.is_plain and self.tensor.requires_grad:
            self.tensor.detach_()  # what was written into it required grad
        with torch.inference_mode(self.version is None):
            self.tensor.data.copy_(self.values)
        if self.version is not None:
            set_version_counter((self.tensor,), (self.version,))


@dataclass(frozen=True)
class Changes:
    """What a graph changes when it runs."""

    inputs: frozenset[fx.Node]
    scopes: Scopes
    """Torch's modes and flags, at least for a while."""
    random: bool
    others: bool
    """Something that can't be undone."""
    counted: bool
    """All that changes inputs counts in their versions."""

    def positions(self, recorded: Recorded) -> Iterator[int]:
        """Which inputs of the graph it changes."""
        return (i for i, node in enumerate(_placeholders(recorded)) if node in self.inputs)


def changes_of(graph: OutputGraph, recorded: Recorded) -> Changes:
    random = others = False
    # What is written through `.data` counts no version of the input.
    counted = {graph.node(each.fake) for each in graph.fakes.inputs if not each.untouched()}
    overwritten = [
        each
        for each in graph.fakes.inputs
        if any(storage_of(part.fake) in graph.overwritten for part in each.in_memory())
    ]
    changed = {*counted, *(graph.node(each.fake) for each in overwritten)}
    nodes = nodes_of(recorded.module)
    pure: dict[tuple[str, int], bool] = {}  # by id of the target, if nothing else is noted
    for node in nodes:
        if _MARKS.isdisjoint(node.meta):
            key = node.op, id(node.target)
            if key not in pure:
                pure[key] = _only_computes(node)
            if pure[key]:
                continue
        name = _name(node)
        others = others or not _may_run_twice(node, name)
        random = random or draws(node)
        if name in UNCOUNTED:  # running statistics
            tensors = (each for each in node.all_input_nodes if each.op == "placeholder")
            changed.update(each for each in tensors if not each.meta["example_value"].requires_grad)
    changed.intersection_update(_placeholders(recorded))
    others = others or bool(graph.fakes.touched)
    counts = changed <= counted
    return Changes(frozenset(changed), scopes_of(nodes), random, others, counts)


def retry_of(graph: OutputGraph, recorded: Recorded, changes: Changes) -> Retry | None:
    """How to try a graph whose sizes or numbers depend on values; None if there is no need to, or
    if it does what can't be undone.
    """
    if (not graph.symbols.unbacked and not graph.checks) or changes.others:
        return None
    changed = changes.inputs
    if changed and not graph.assumptions and not graph.checks:
        return None  # its checks hold: a copy of the inputs would be for nothing
    undo = undo_of(graph, recorded, changes)
    if undo is None:
        return None
    expected = tuple(each.answer for each in graph.checks)
    places = *graph.assumptions.facts.values(), *(each.place for each in graph.checks)
    checks = None
    if not changes.scopes:
        checks = preflight(recorded.module, graph.written, len(expected))
    question = None if checks is None else Question(checks)
    early = checks if changed and not expected else None
    return Retry(undo.changed, undo.random, early, expected, places, question=question)


def undo_of(graph: OutputGraph, recorded: Recorded, changes: Changes) -> Retry | None:
    """How to put back what a graph has changed, whatever made it raise; None if that can't be."""
    inputs = {graph.node(given.fake): given for given in graph.fakes.inputs}
    if changes.others or not all(_is_restorable(inputs[node]) for node in changes.inputs):
        return None
    return Retry(tuple(changes.positions(recorded)), changes.random, plain=True)


def _placeholders(recorded: Recorded) -> list[fx.Node]:
    return [node for node in recorded.module.graph.nodes if node.op == "placeholder"]


_MARKS: Final = frozenset({DRAWS, KEEP, ONCE})


def _only_computes(node: fx.Node) -> bool:
    """Whether a node without such marks, and all others of its target, change nothing at all."""
    name = _name(node)
    return _may_run_twice(node, name) and name not in UNCOUNTED and not may_draw(node)


def _name(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload):
        return str(node.target._schema.name.partition("::")[2])
    return str(getattr(node.target, "__name__", node.target))


def _may_run_twice(node: fx.Node, name: str) -> bool:
    """Whether all that a node does is to change tensors, random numbers or torch's state."""
    if ONCE in node.meta:
        return False
    if node.op == "call_function":
        if id(node.target) in _STATES:
            return True
        if not is_torch_function(node.target):
            return False
    if not node.op.startswith("call_") or (KEEP not in node.meta and name not in EFFECTS):
        return True
    return name in _ASSERTS or name in _WRITES or name not in EFFECTS


def draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers, or calls a body that does."""
    if node.meta.get(DRAWS):
        return True
    return may_draw(node) and (isinstance(node.target, OpOverload) or not is_switched_off(node))


def may_draw(node: fx.Node) -> bool:
    """Whether nodes of its target draw random numbers, with some arguments."""
    if isinstance(node.target, OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    name = _name(node)
    return name.strip("_") in RANDOM or name in RANDOM


def _is_restorable(given: FakeInput) -> bool:
    """Whether only the values of an input are changed, not what it is."""
    if given.parts:
        return False
    fake, real = given.fake, given.real
    began = fake.requires_grad and not real.requires_grad and not real._is_view()
    return (began or not fake.requires_grad) and given.lies_as_made()
