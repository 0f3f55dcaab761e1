"""The end of a trace: what it changed, and where each value of its result comes from.

In: a tracer whose program has ended. Out: net effects on world objects, for `effects.plan`, and
`Resolver`, which tells shadows, tensors and raw objects apart and collects the graph's outputs.
"""

import builtins
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final

import torch

from stator import objects
from stator._native._core import NULL
from stator.capture.autograd.autograd_nodes import refuse
from stator.capture.calls.caches import asked, keep
from stator.capture.communication.works import Pending
from stator.capture.numbers.scalars import SYMBOLS
from stator.capture.numbers.shapes import has_value
from stator.capture.objects.addresses import check_told
from stator.capture.objects.changes import changes as changes_of
from stator.capture.objects.identities import guard_distinct
from stator.capture.objects.names import Waiting
from stator.capture.objects.process_answers import iterated
from stator.capture.objects.weak_callbacks import behind as callback_behind
from stator.capture.objects.weak_references import check_dropped, check_forgotten
from stator.capture.tensors.subclasses import Behind
from stator.capture.tensors.tensors import CONSTANT_TYPES
from stator.capture.texts.printing import Unknown
from stator.capture.texts.warning_filters import filters
from stator.capture.trace.tracer import Tracer
from stator.diagnostics.breaks import Place
from stator.diagnostics.catalogue import TorchState, WarningControl
from stator.effects import (
    CannotRebuild,
    CellDel,
    CellSet,
    ClassAttrSet,
    Constant,
    Effect,
    Fetched,
    KeySet,
    Output,
    Perform,
    Ref,
    SetContents,
)
from stator.effects.node import Node
from stator.effects.steps import Raw
from stator.effects.texts import Given, Mention, Text
from stator.graph.recording import shown
from stator.graph.recording.arguments import Handle
from stator.guards import Fixed
from stator.objects import TypeSet
from stator.torchlib.modes import set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import Record
from stator.world.records import dict_source

_CONSTANTS = TypeSet(*CONSTANT_TYPES)


class Resolver:
    """Answers where a value comes from at run time."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._world = tracer.world
        self.outputs: list[Any] = []
        self.places: tuple[Place, ...] = ()  # of what can't be made again
        self.arrays: list[int] = []  # positions of outputs that become numpy arrays
        self.scalars: list[int] = []  # and of those that become numpy scalars
        self.rebuilt: set[int] = set()  # ids of what is made again
        self._indices: dict[int, int] = {}
        # The globals of functions made in the trace are no values of it.
        made = tracer.calls.made.values()
        self._namespaces = {id(function.__globals__) for function in made}
        self._namespaces -= tracer.own_namespaces
        self._namespaces.add(id(builtins.__dict__))  # exec leaves it in the globals it is given

    def __call__(self, value: Any) -> Ref | None:
        cls = type(value)
        if _CONSTANTS.holds(cls):
            if cls is torch.Size and any(type(size) is not int for size in value):
                if not all(map(has_value, value)):
                    raise CannotRebuild("a torch.Size whose sizes depend on values")
                return None
            return Constant(value)
        if cls is Waiting:
            return Fetched(value.source)
        if cls is Given:
            return Fetched(value.source)
        if cls is Text:
            self.places = value.places
            return None
        if cls is Behind:
            raise CannotRebuild("super() of a tensor")
        if cls is Unknown:
            raise CannotRebuild("the number of characters that were written")
        if cls is Handle:
            raise CannotRebuild("the function that torch.func.vjp has returned")
        if cls is Pending:
            left = CannotRebuild("the handle of a collective")
            left.value = value
            raise left
        if cls is Mention:
            return self._mention(value)
        source = self._world.origins.get(id(value))
        if source is None and self._tracer.tensors.nodes.holds(value):
            refuse()
        if self._tracer.arrays.holds(cls) and source is None:
            return self._array(value)
        if self._tracer.arrays.is_dtype(cls) and source is None:
            return Constant(value)
        if self._tracer.tensors.holds(cls):
            if source is not None:
                return Fetched(source)
            return None if self._tracer.tensors.own.has_state(value) else self._output(value)
        if SYMBOLS.holds(cls):
            given = self._tracer.tensors.shapes.source_of(value)
            return self._output(value) if given is None else Fetched(given)
        if source is not None:
            record = self._world.records.get(id(value))
            if record is None and type(source) is Fixed:
                return Constant(source.value)
            return Fetched(source)
        if id(value) in self._tracer.tensors.wrappers.copied:
            raise CannotRebuild(f"a {cls.__qualname__} of which a tensor has a copy")
        owner = self._world.dicts.get(id(value))
        where = None if owner is None else dict_source(owner)
        if where is not None:
            return Fetched(where)
        if id(value) in self._world.records:
            raise CannotRebuild("the __dict__ of an object that existed before the call")
        if objects.is_subtype(cls, type):
            if id(value) in self._world.made_classes:
                raise CannotRebuild(f"the class {value.__qualname__}, made in the call")
            return Constant(value)
        if cls is types.FunctionType:
            if id(value) in self._tracer.calls.made:
                return None
            return Constant(value)
        if objects.is_subtype(cls, types.ModuleType) or cls is types.CodeType:
            return Constant(value)
        if id(value) in self._namespaces:
            return Constant(value)
        iterated(self._world, value)  # it is filled anew, in the order that it has here
        return None

    def remade(self, value: Any) -> Node | None:
        """A tensor to which the program has given attributes; what C code was not given itself."""
        keep(self._tracer.calls, value)
        check_told(self._tracer.calls, value)
        self.rebuilt.add(id(value))
        waiting = callback_behind(value)
        if waiting is not None:
            return Node(value, Raw(waiting))
        behind = self._tracer.calls.stand_ins.get(id(value), self)
        if behind is not self:
            return Node(value, Raw(behind))
        if not self._tracer.tensors.holds(type(value)):
            return None
        made: Node = self._tracer.tensors.own.recipe(value, self._output)
        return made

    def _mention(self, mention: Mention) -> Ref | None:
        """A tensor as it was when the program showed it."""
        if mention.region:
            raise CannotRebuild("a text that mentions a tensor from inside of a region")
        self._tracer.texts.settle(mention)
        if mention.looks is not None:
            return None
        return self(mention.settled) or self._output(mention.settled)

    def _output(self, value: Any) -> Output:
        key = id(value)
        if key not in self._indices:
            self._indices[key] = len(self.outputs)
            self.outputs.append(value)
        return Output(self._indices[key])

    def _array(self, value: Any) -> Ref | None:
        """A numpy array or scalar that was made in the call."""
        arrays = self._tracer.arrays
        fake = arrays.output(value)
        if fake is None:
            trouble = arrays.trouble(value)
            if trouble is not None:
                raise CannotRebuild(trouble)
            return Constant(value) if arrays.is_scalar(value) else None
        if id(value) not in self._indices:
            self._indices[id(value)] = len(self.outputs)
            kind = self.scalars if arrays.is_scalar(value) else self.arrays
            kind.append(len(self.outputs))
            self.outputs.append(fake)
        return Output(self._indices[id(value)])


def effects(tracer: Tracer) -> Iterator[Effect]:
    """What the program changed in the world."""
    changed = False
    for effect in _changes(tracer):
        changed = True
        yield effect
    yield from asked(tracer.performed, changes=changed)
    if tracer.calls.shows or tracer.calls.logs:
        yield Perform(Fixed(shown.rest, "show_rest"), ())


def _changes(tracer: Tracer) -> Iterator[Effect]:
    """What is not performed."""
    yield from tracer.ahead.effects()
    yield from tracer.tensors.own.effects([each.code for each in tracer.suspended or ()])
    records = [record for record in tracer.world.records.values() if record.owner is None]
    for record in records:
        changes = list(changes_of(record))
        if changes or record.touched:
            guard_distinct(tracer.world, record, records)
        if changes:
            _check_filters(tracer, record, changes)
            check_dropped(record)
            if record.weak:
                check_forgotten(tracer.calls, record)
            if any(type(each) is SetContents for each in changes):
                iterated(tracer.world, record.shadow)
        yield from changes
    for key, cls in tracer.world.written_classes.items():
        yield ClassAttrSet(Fixed(cls), key[1], tracer.world.class_writes[key])
    for cell_id in tracer.written_cells:
        cell_target = tracer.world.origins[cell_id]
        value = tracer.cells[cell_id]
        yield CellDel(cell_target) if value is NULL else CellSet(cell_target, value)


_MANAGERS: Final[dict[str, Any]] = {"autocast": torch.autocast, "inference": torch.inference_mode}


def state_effects(tracer: Tracer) -> Iterator[Effect]:
    """torch's state that the program leaves changed: a graph itself leaves none behind."""
    with DisableTorchFunction():
        left = tracer.tensors.state.balance()
    setter = Fixed(set_grad_enabled, "set_grad_enabled")
    if left.grad is not None:
        yield Perform(setter, (left.grad,))
    for scope in left.scopes:
        if scope.holder is None:
            raise TorchState(f"{scope.kind} is entered for good")
        cls = _MANAGERS[scope.kind]  # the code of a class that inherits from it has run
        if scope.leaves:
            leave = Fixed(cls.__exit__, f"leave_{scope.kind}")
            yield Perform(leave, (scope.holder, None, None, None))
        else:
            yield Perform(Fixed(cls.__enter__, f"enter_{scope.kind}"), (scope.holder,))
    if left.inner_grad is not None:
        yield Perform(setter, (left.inner_grad,))


def _check_filters(tracer: Tracer, record: Record, changes: list[Effect]) -> None:
    """Warning filters that stay changed: C code would have to be told (see `warned`)."""
    changed = record.raw is filters()
    if record.raw is warnings.__dict__:
        stand_in = tracer.world.stand_ins.get(id(filters()))
        changed = any(
            type(change) is not KeySet or (change.key == "filters" and change.value is not stand_in)
            for change in changes
        )
    if changed:
        raise WarningControl("the warning filters are changed for good")
