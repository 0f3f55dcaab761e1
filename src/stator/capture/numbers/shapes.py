"""Sizes and ints that a trace leaves open: symbols of torch's `ShapeEnv` with a known value.

In: tensors and ints of the world, and what is wanted open (`Wanted`, which the driver has learned
from calls before). Out: fake tensors with symbolic sizes, symbolic ints, and what is assumed of
them, which is guarded at the end (`assumptions.py`).

A symbolic int with a value behaves as the int it stands for: arithmetic gives expressions, a
comparison is answered at once and becomes a condition, and where only the number itself will do
(a key, a range, C code), it is *specialized*: it must be this number from then on. Floats that
follow from it are `capture.reals`.
"""

import operator
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator import objects
from stator._native._core import Frame
from stator.bytecode.tables import TABLES
from stator.capture.autograd.autograd_leaves import user_call
from stator.capture.calls.operators import NOT_IN_PLACE
from stator.capture.numbers.assumptions import Assumed, Mark, relation, within
from stator.capture.numbers.decisions import Created
from stator.capture.numbers.dimensions import marks_of
from stator.capture.numbers.floats import Floats
from stator.capture.numbers.reals import Reals, hint
from stator.capture.tensors.parts import place
from stator.capture.trace.wanted import LARGEST, MOST_OPEN, NEXT_ITEM, Wanted
from stator.diagnostics.catalogue import ValueNeeded
from stator.effects.texts import Text
from stator.graph.fakes.inputs import Dynamic
from stator.graph.fakes.wrappers import is_wrapper, parts_of
from stator.guards import Key, Local, OffsetOf, Source, TypeIs
from stator.guards.sources import Attr, Index
from stator.guards.tensors import TensorMatch, plain, tensor_match
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

SMALL: Final = TABLES.small_ints
_STEPS: Final = (Index, Key)  # from an argument to what is given in it
_HELD: Final = frozenset({"_buffers", "_parameters"})
# Whole numbers give whole numbers.
EXACT: Final = frozenset(
    (
        operator.add,
        operator.sub,
        operator.mul,
        operator.floordiv,
        operator.mod,
        operator.neg,
        operator.pos,
    )
)
_COMPARISONS: Final = frozenset(
    (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
)
_DIVISIONS: Final = frozenset((operator.floordiv, operator.mod))
_WHOLE: Final = TypeSet(int, bool, torch.SymInt)
_INTS: Final = TypeSet(int, torch.SymInt)
_KNOWN: Final = TypeSet(torch.SymInt, torch.SymFloat)
_PLAIN: Final = TypeSet(int, bool, float, complex, torch.SymInt, torch.SymFloat)
_BESIDE: Final = TypeSet(
    int, bool, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool, FakeTensor, Text
)


class Shapes:
    """The symbols of one trace that have a value."""

    def __init__(self, tensors: "Tensors", wanted: Wanted) -> None:
        self._graph = tensors.graph
        self._env: Any = tensors.graph.shape_env
        self._world: Any = tensors.world
        self._wanted = wanted
        self.floats = Floats(tensors, wanted)
        self.reals = Reals(self, tensors.graph)
        self._inputs: dict[str, Source] = {}  # by name of the placeholder
        self.assumed = Assumed(tensors.graph, self._inputs, self.reals)
        self._ints: dict[int, tuple[torch.SymInt, Source]] = {}  # by id
        self.created: list[Created] = []

    def __bool__(self) -> bool:
        return bool(self._graph.symbols.facts)

    @property
    def unbacked(self) -> bool:
        """Whether there are sizes without a value."""
        return bool(self._env.unbacked_inputs)

    @property
    def marked(self) -> bool:
        """Whether the user insists on something."""
        return bool(self.assumed.marked)

    @property
    def in_use(self) -> bool:
        """Whether something is left open, and the user does not insist on it."""
        return (bool(self) or bool(self.floats)) and not self.marked

    # ------------------------------------------------------------------ from the world

    def dynamic(self, raw: torch.Tensor, source: Source) -> Dynamic | None:
        """Which sizes and strides of a tensor are left open."""
        if is_wrapper(raw):
            return self._dynamic_wrapper(raw, source)
        return self._dynamic(raw, source)

    def _dynamic_wrapper(self, raw: torch.Tensor, source: Source) -> Dynamic | None:
        """The same of a wrapper and of what it holds: its strides follow from its sizes."""
        found = self._dynamic(raw, source)
        if found is not None and (found.strict or found.unbacked or found.bounds):
            found = Dynamic(frozenset(found.sizes) - {*found.unbacked})
        parts = {
            name: dynamic
            for name, part in parts_of(raw)
            if (dynamic := self.dynamic(part, place(raw, source, name))) is not None
        }
        if found is None and not parts:
            return None
        return Dynamic(() if found is None else found.sizes, parts=parts)

    def _dynamic(self, raw: torch.Tensor, source: Source) -> Dynamic | None:
        wanted = self._wanted
        marks = marks_of(raw)
        if wanted.never or not (wanted or any(marks)):
            return None
        if plain(raw).is_nested:
            return None  # it has no sizes, and can't be an input
        text = str(source)
        shape = plain(raw).shape
        dims = range(len(shape))
        sizes, strides = set(marks.weak), frozenset[int]()
        parameter = objects.is_subtype(type(raw), torch.nn.Parameter) or (
            is_wrapper(raw) and (objects.instance_dict(raw) or {}).get("_is_param") is True
        )
        if not parameter:
            sizes.update(wanted.sizes.get(text, ()))
            strides = wanted.strides.get(text, strides)
            named = wanted.named is not None and wanted.named(text)
            if named or (wanted.every and _is_free(source)):
                sizes.update(dims)
        sizes -= marks.static
        sizes |= marks.strict | marks.unbacked
        sizes.intersection_update(dims)
        if not sizes and not strides:
            return None
        strict, unbacked = marks.strict & sizes, marks.unbacked & sizes
        bounds = {
            dim: (least, most)
            for dim, (least, most) in marks.bounds.items()
            if dim in sizes and within(shape[dim], least, most)
        }
        return Dynamic(frozenset(sizes), strides, bounds, strict - unbacked, unbacked)

    def wrapped(
        self, raw: torch.Tensor, fake: torch.Tensor, source: Source, dynamic: Dynamic | None
    ) -> TensorMatch:
        """A tensor has become an input; the guard on the tensor itself."""
        found = tensor_match(raw)
        # With a view whose sizes are open, torch leaves those of its base open, too.
        if dynamic is None and not (self._graph.symbols and _is_open(fake)):
            return found
        self._inputs[self._graph.latest_input().name] = source
        marks = marks_of(raw)
        for dim in () if dynamic is None else dynamic.strict:
            size = found.sizes[dim]
            assert size is not None
            mark = Mark(source, dim, size, fake.shape[dim], marks.bounds)
            self.assumed.marked.append(mark)
        for dim, number in enumerate(fake.shape):
            self._note_created(f"{source}.size({dim})", number, source, marks.word(dim))
        for dim, number in enumerate(fake.stride()):
            self._note_created(f"{source}.stride({dim})", number, source)
        return opened(found, fake)

    def integer(self, raw: int, source: Source) -> Any:
        """An int of the world; MISSING if it is not left open."""
        wanted = self._wanted
        counts = not wanted.never and _is_next_item(source)
        if not (wanted or counts) or not -LARGEST <= raw <= LARGEST:
            return MISSING
        if len(self._ints) >= MOST_OPEN:
            return MISSING
        text = str(source)
        named = counts or (wanted.named is not None and wanted.named(text))
        if not (named or text in wanted.ints or (wanted.every and _is_argument(source))):
            return MISSING
        number: torch.SymInt = self._graph.add_input(text, raw, within=LARGEST)
        given = self._graph.latest_input()
        self._inputs[given.name] = source
        self._ints[id(number)] = number, source
        self._world.guard(source, TypeIs(int))
        self._note_created(text, number, source)
        return number

    def _note_created(self, what: str, number: Any, source: Source, marked: str = "") -> None:
        """For the log: a symbol, and why it is one."""
        if type(number) is not torch.SymInt or not isinstance(number.node.expr, sympy.Symbol):
            return
        wanted = self._wanted
        why = "it follows from no size"
        if marked:
            why = f"it is marked ({marked})"
        elif what in wanted.changes:
            why = wanted.changes[what]
        elif wanted.named is not None and wanted.named(str(source)):
            why = "config.dynamic_sources names it"
        elif _is_next_item(source):
            why = "it counts iterations"
        elif wanted.every and ".stride(" not in what:
            why = "dynamic=True"
        if any(each.symbol == str(number.node.expr) for each in self.created):
            return
        value = number.node.hint if number.node.has_hint() else None
        self.created.append(Created(what, str(number.node.expr), value, why))

    def begins(self, raw: torch.Tensor, source: Source) -> None:
        """The program has asked where a tensor begins, which is never left open."""
        offset = int(raw.storage_offset())
        self._world.guards.append(relation(OffsetOf(source) == offset))

    def source_of(self, number: Any) -> Source | None:
        """Where a number is found in the world, if it is there."""
        known = self._ints.get(id(number))
        return self.floats.source_of(number) if known is None else known[1]

    def assumed_of(self) -> set[str]:
        """The texts of the sources of ints of which something is assumed."""
        env, symbols = self._env, set[Any]()
        for guard in env.guards:
            symbols |= guard.expr.free_symbols
        symbols.update(env.replacements)
        found = ((each.node.expr.free_symbols, source) for each, source in self._ints.values())
        return {str(source) for free, source in found if not free or not free.isdisjoint(symbols)}

    def input_source(self, name: str) -> Source:
        return self._inputs[name]

    # ------------------------------------------------------------------ in the trace

    def operands(self, frame: Frame | None, a: Any, b: Any) -> tuple[Any, Any]:
        """Of an operator: a symbolic number next to anything but a number or tensor is fixed."""
        if _KNOWN.holds(type(a)) and not _BESIDE.holds(type(b)):
            a = self.plain(frame, a)
        elif _KNOWN.holds(type(b)) and not _BESIDE.holds(type(a)):
            b = self.plain(frame, b)
        return a, b

    def operate(self, frame: Frame | None, function: Any, operands: Sequence[Any]) -> Any:
        """An operator on symbolic numbers with values; MISSING if there is one without."""
        if not all(_PLAIN.holds(type(value)) and has_value(value) for value in operands):
            return MISSING
        function = NOT_IN_PLACE.get(function, function)
        whole = all(_WHOLE.holds(type(value)) for value in operands)
        if whole and function is operator.abs:
            (number,) = operands
            return number if self.decided(frame, number >= 0) else -number
        if whole and self._is_exact(frame, function, operands):
            with DisableTorchFunction():
                found = function(*map(_counted, operands))
            return self.decided(frame, found) if function in _COMPARISONS else found
        real = self.reals.operate(frame, function, operands)
        if real is not MISSING:
            return real
        return user_call(function, *(self.number(frame, value) for value in operands))

    def _is_exact(self, frame: Frame | None, function: Any, operands: Sequence[Any]) -> bool:
        """Whether torch computes the operator of symbolic ints as CPython does that of ints."""
        if function in _DIVISIONS:
            return operands[1] != 0 if type(operands[1]) is int else self._divides(frame, operands)
        if function is operator.pow:
            return type(operands[1]) is int and 0 < operands[1] <= 8
        return function in EXACT or function in _COMPARISONS

    def _divides(self, frame: Frame | None, operands: Sequence[Any]) -> bool:
        return self.decided(frame, _counted(operands[1]) != 0)

    def method(self, frame: Frame | None, name: str, args: Sequence[Any]) -> Any:
        """A method of a symbolic number that C code calls, on the number itself."""
        known, *rest = (self.plain(frame, value) for value in args)
        found = objects.type_dict(type(known)).get(name)
        if found is None:
            raise ValueNeeded(f"C code calls the method {name} of a number that is left open")
        return user_call(found, known, *rest)

    def decided(self, frame: Frame | None, condition: Any) -> bool:
        """Whether a condition is true, which it has to be from now on, or false."""
        with DisableTorchFunction():
            answer = bool(condition)
        self.assumed.note(frame)
        return answer

    def number(self, frame: Frame | None, value: Any) -> Any:
        """The number itself, which it has to be from now on."""
        if type(value) is torch.SymFloat:
            if not has_value(value):
                return self.floats.fixed(value)
            for leaf in self.reals.leaves_of(value):
                self.number(frame, leaf)
            return hint(value)
        if type(value) is not torch.SymInt:
            return value
        with DisableTorchFunction():
            known = int(value)
        self.assumed.note(frame)
        return known

    def plain(self, frame: Frame | None, value: Any) -> Any:
        """A key or index for C code: with numbers in it, not symbols."""
        kind = type(value)
        if kind is torch.SymInt:
            return self.number(frame, value) if value.node.has_hint() else value
        if kind is torch.SymFloat:
            return self.number(frame, value)
        if kind is tuple and any(map(_may_hold, value)):
            return tuple(self.plain(frame, item) for item in value)
        if kind is torch.Size and any(map(_may_hold, value)):
            return torch.Size([self.plain(frame, item) for item in value])
        if kind is slice:
            parts = value.start, value.stop, value.step
            if any(type(part) is torch.SymBool for part in parts):
                raise ValueNeeded("a bool that is read from a tensor is used as an index")
            if any(map(_may_hold, parts)):
                return slice(*(self.plain(frame, part) for part in parts))
        return value

    def searched(self, frame: Frame | None, container: Any, item: Any) -> tuple[Any, Any]:
        """Of `item in container`: a nan is in what holds this very one, so both get the same."""
        if type(item) is torch.SymFloat:
            container = self.fixed(frame, container)
        return container, self.plain(frame, item)

    def fixed(self, frame: Frame | None, value: Any, seen: frozenset[int] = frozenset()) -> Any:
        """What C code reads to the bottom, with numbers in it; lists and dicts stay the same.

        `seen` are those that it is in, by id.
        """
        kind = type(value)
        if kind is torch.Size or CONSTANTS.holds(kind):
            return self.plain(frame, value)
        base: Any = objects.layout_base(kind)
        mapping = objects.is_subtype(base, dict)
        if mapping or base is list or base is deque:
            if id(value) in seen:
                return value
            seen |= {id(value)}
            pairs = list(dict.items(value) if mapping else enumerate(base.__iter__(value)))
            for key, item in pairs:
                number = self.fixed(frame, item, seen)
                if number is not item:
                    (dict if mapping else base).__setitem__(value, key, number)
                    self._filled_with(value, item, number)
            return value
        if base is tuple and not objects.instance_dict(value):
            items = tuple(self.fixed(frame, item, seen) for item in tuple.__iter__(value))
            if all(map(operator.is_, items, tuple.__iter__(value))):
                return value
            return items if kind is tuple else tuple.__new__(kind, items)
        return self.plain(frame, value)

    def _filled_with(self, shadow: Any, symbol: Any, number: Any) -> None:
        """That a shadow holds a number instead of its symbol is no change of the program's."""
        record = self._world.records.get(id(shadow))
        if record is None or type(record.initial) is not list:
            return
        pairs = objects.is_subtype(type(shadow), dict)
        for index, held in enumerate(record.initial):
            if pairs and held[1] is symbol:
                record.initial[index] = held[0], number
            elif held is symbol:
                record.initial[index] = number

    def identical(self, frame: Frame | None, a: Any, b: Any) -> bool:
        """`a is b`, one of them a symbolic number: equal ones may be two objects."""
        if type(a) is torch.SymFloat and type(b) is torch.SymFloat:
            raise ValueNeeded("whether two floats are the same object")
        if not _INTS.holds(type(a)) or not _INTS.holds(type(b)):
            return False
        a, b = self.plain(frame, a), self.plain(frame, b)
        if type(a) is not int or type(b) is not int or a != b:
            return False
        if a not in SMALL:
            raise ValueNeeded("whether two equal ints are the same object")
        return True


def opened(match: TensorMatch, fake: torch.Tensor) -> TensorMatch:
    """The guard without the sizes and strides that are symbols."""
    strides = None if match.strides is None else tuple(map(_known, fake.stride()))
    return replace(match, sizes=tuple(map(_known, fake.shape)), strides=strides)


def _is_open(fake: torch.Tensor) -> bool:
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    return any(_known(number) is None for number in numbers)


def _known(extent: Any) -> int | None:
    return extent if type(extent) is int else None


def has_value(value: Any) -> bool:
    """Everything has one, but numbers that are read from tensors."""
    kind = type(value)
    if kind is torch.SymInt or kind is torch.SymFloat:
        return bool(value.node.has_hint())
    return kind is not torch.SymBool


def _counted(value: Any) -> Any:
    return int(value) if type(value) is bool else value


def _may_hold(value: Any) -> bool:
    return type(value) in (torch.SymInt, torch.SymFloat, tuple, torch.Size, slice)


def _is_argument(source: Source | None) -> bool:
    """Whether something is given as an argument, or in one."""
    while isinstance(source, _STEPS):
        source = source.base
    return type(source) is Local


def _is_next_item(source: Source | None) -> bool:
    """Whether something is what an iterator gives next, or in it."""
    while type(source) is Index:
        source = source.base
    return type(source) is Local and source.name == NEXT_ITEM


def _is_free(source: Source | None) -> bool:
    """Whether a tensor is neither a parameter nor a buffer of a module."""
    while source is not None:
        if type(source) is Attr and source.name in _HELD:
            return False
        source = source.base
    return True
