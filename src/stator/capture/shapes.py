"""Sizes and ints that a trace leaves open: symbols of torch's `ShapeEnv` with a known value.

In: tensors and ints of the world, and what is wanted open (`Wanted`, which the driver has learned
from calls before). Out: fake tensors with symbolic sizes, symbolic ints, and at the end the guards
that say for which sizes and ints the trace is right.

A symbolic int with a value behaves as the int it stands for: arithmetic gives expressions, a
comparison is answered at once and becomes a condition, and where only the number itself will do
(a key, a range, C code), it is *specialized*: it must be this number from then on. Floats that
follow from it are `capture.reals`.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from torch._subclasses.fake_tensor import FakeTensor

from stator import objects
from stator._native._core import Frame
from stator.bytecode import decode
from stator.capture.autograd_leaves import user_call
from stator.capture.blame import blame
from stator.capture.decisions import Created, Decisions, Named
from stator.capture.dimensions import marks_of
from stator.capture.floats import Floats
from stator.capture.operators import NOT_IN_PLACE
from stator.capture.reals import Reals, hint
from stator.diagnostics.breaks import Place, stack
from stator.diagnostics.catalogue import ValueNeeded
from stator.diagnostics.places import library, users_own
from stator.effects.texts import Text
from stator.graph.fakes import Bounds, Dynamic
from stator.graph.implied import needed
from stator.graph.shape_guards import shape_guards
from stator.graph.symbols import Origin
from stator.guards import Guard, Int, Key, Local, OffsetOf, SizeOf, Source, StrideOf, TypeIs
from stator.guards.checks import Relation
from stator.guards.expressions import Binary, Constant, Expr, Leaf, Real, Unary
from stator.guards.sources import Attr, Index
from stator.guards.symbolic import Translator
from stator.guards.tensors import TensorMatch, plain, tensor_match
from stator.objects import TypeSet
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors import Tensors

LARGEST: Final = 1 << 31
"""Ints beyond are never symbolic: products of two others still fit into 64 bits, in which compiled
code and guards compute."""
_SMALL: Final = range(-5, 257)  # of these CPython has one object each
_ANY_SIZE: Final = "write this line for any size, or use maybe_mark_dynamic"
_ANOTHER_BACKEND: Final = "use another backend, or maybe_mark_dynamic"
_ANOTHER_RANGE: Final = "mark a range that this size is in, or don't mark tensors outside of it"
_ANOTHER_SIZE: Final = "use mark_unbacked, for which they are not, or maybe_mark_dynamic"
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


@dataclass(frozen=True)
class Wanted:
    """What a trace is to leave open, by the text of its source."""

    ints: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    sizes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    strides: Mapping[str, frozenset[int]] = field(default_factory=dict)
    every: bool = False
    """All that is an argument."""
    never: bool = False
    """Nothing, whatever a tensor is marked with."""
    named: Callable[[str], bool] | None = None
    """Whether a setting names a source."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """How a size, stride or int has changed, in words."""

    def __bool__(self) -> bool:
        """Whether anything may be left open, but for what is marked."""
        return not self.never and bool(
            self.ints or self.floats or self.sizes or self.strides or self.every or self.named
        )

    def opens_float(self, text: str) -> bool:
        """Whether a float is left open: never from the start, for much is decided by floats."""
        return not self.never and text in self.floats


class UnknownSymbolError(Exception):
    """Something is assumed of a symbol that can't be checked."""


class Specialized(NamedTuple):
    """Why a size that was marked as dynamic is not, where, and what can be done."""

    why: str
    places: tuple[Place, ...]
    fix: str


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
        self._ints: dict[int, tuple[torch.SymInt, Source]] = {}  # by id
        self._marked: list[tuple[Source, int, int, Any, Mapping[int, Bounds]]] = []
        self._places: list[tuple[int, tuple[Place, ...]]] = []  # number of guards, then where
        self._traced: int | None = None  # number of guards when the trace ended
        self._beyond: dict[Any, tuple[sympy.Basic, tuple[Place, ...]]] = {}
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
        return bool(self._marked)

    @property
    def in_use(self) -> bool:
        """Whether something is left open, and the user does not insist on it."""
        return (bool(self) or bool(self.floats)) and not self.marked

    # ------------------------------------------------------------------ from the world

    def dynamic(self, raw: torch.Tensor, source: Source) -> Dynamic | None:
        """Which sizes and strides of a tensor are left open."""
        wanted = self._wanted
        marks = marks_of(raw)
        if wanted.never or not (wanted or any(marks)):
            return None
        text = str(source)
        shape = plain(raw).shape
        dims = range(len(shape))
        sizes, strides = set(marks.weak), frozenset[int]()
        if not objects.is_subtype(type(raw), torch.nn.Parameter):
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
            if dim in sizes and _within(shape[dim], least, most)
        }
        return Dynamic(frozenset(sizes), strides, bounds, strict - unbacked, unbacked)

    def wrapped(
        self, raw: torch.Tensor, fake: torch.Tensor, source: Source, dynamic: Dynamic | None
    ) -> TensorMatch:
        """A tensor has become an input; the guard on the tensor itself."""
        found = tensor_match(raw)
        if dynamic is None:
            return found
        self._inputs[self._graph.latest_input().name] = source
        marks = marks_of(raw)
        for dim in dynamic.strict:
            size = found.sizes[dim]
            assert size is not None
            self._marked.append((source, dim, size, fake.shape[dim], marks.bounds))
        for dim, number in enumerate(fake.shape):
            self._note_created(f"{source}.size({dim})", number, source, marks.word(dim))
        for dim, number in enumerate(fake.stride()):
            self._note_created(f"{source}.stride({dim})", number, source)
        strides = None if found.strides is None else tuple(map(_known, fake.stride()))
        return replace(found, sizes=tuple(map(_known, fake.shape)), strides=strides)

    def integer(self, raw: int, source: Source) -> Any:
        """An int of the world; MISSING if it is not left open."""
        wanted = self._wanted
        if not wanted or not -LARGEST <= raw <= LARGEST:
            return MISSING
        text = str(source)
        named = wanted.named is not None and wanted.named(text)
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
        elif wanted.every and ".stride(" not in what:
            why = "dynamic=True"
        if any(each.symbol == str(number.node.expr) for each in self.created):
            return
        value = number.node.hint if number.node.has_hint() else None
        self.created.append(Created(what, str(number.node.expr), value, why))

    def begins(self, raw: torch.Tensor, source: Source) -> None:
        """The program has asked where a tensor begins, which is never left open."""
        offset = int(raw.storage_offset())
        self._world.guards.append(_holds(OffsetOf(source) == offset))

    def source_of(self, number: Any) -> Source | None:
        """Where a number is found in the world, if it is there."""
        known = self._ints.get(id(number))
        return self.floats.source_of(number) if known is None else known[1]

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
            with torch._C.DisableTorchFunction():
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
        with torch._C.DisableTorchFunction():
            answer = bool(condition)
        self.note(frame)
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
        with torch._C.DisableTorchFunction():
            known = int(value)
        self.note(frame)
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
            if any(map(_may_hold, parts)):
                return slice(*(self.plain(frame, part) for part in parts))
        return value

    def fixed(self, frame: Frame | None, value: Any) -> Any:
        """What C code reads to the bottom, with numbers in it; lists and dicts stay the same."""
        kind = type(value)
        if kind is list or kind is dict:
            pairs = list(enumerate(value) if kind is list else dict.items(value))
            for key, item in pairs:
                number = self.fixed(frame, item)
                if number is not item:
                    kind.__setitem__(value, key, number)
                    self._filled_with(value, item, number)
            return value
        if kind is tuple and any(self.fixed(frame, item) is not item for item in value):
            return tuple(self.fixed(frame, item) for item in value)
        return self.plain(frame, value)

    def _filled_with(self, shadow: Any, symbol: Any, number: Any) -> None:
        """That a shadow holds a number instead of its symbol is no change of the program's."""
        record = self._world.records.get(id(shadow))
        if record is None or type(record.initial) is not list:
            return
        pairs = type(shadow) is dict
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
        if a not in _SMALL:
            raise ValueNeeded("whether two equal ints are the same object")
        return True

    def note(self, frame: Frame | None) -> None:
        """What torch has assumed since the last time is due to the line that runs now."""
        count = len(self._env.guards)
        if count <= (self._places[-1][0] if self._places else 0):
            return
        places = () if frame is None or frame.finished else stack(frame)
        if places and library(users_own(places)):
            places = (*_users_line(), *places)
        self._places.append((count, places))

    # ------------------------------------------------------------------ the end

    def guards(self) -> list[Guard]:
        """For which sizes and ints the graph is right; to be asked after the backend ran."""
        if not self:
            return []
        self._env.freeze()  # as in torch: of what comes later, it warns
        found = shape_guards(self._graph)
        leaves = {symbol: self._leaf(origin) for symbol, origin in found.symbols.items()}
        translated = Translator(self._place(leaves))
        made: dict[tuple[Any, ...], Guard] = {}

        def add(expr: Expr | None, meant: sympy.Basic, index: int = -1) -> None:
            why = self._why(index)
            if expr is None:
                # The native tree can't compute it, but it is true for these numbers.
                for symbol in self.reals.roots(meant.free_symbols):
                    if symbol not in leaves or symbol not in self._env.backed_var_to_val:
                        raise UnknownSymbolError(f"of the size {symbol} no input tells")
                    number = int(self._env.backed_var_to_val[symbol])
                    self._beyond.setdefault(symbol, (meant, self._places_of(index)))
                    add(leaves[symbol] == number, meant, index)
                return
            key = _key(expr)
            if key not in made or (why and not made[key].where):
                made[key] = _holds(expr, why)

        for origin, expr in found.equal:
            number = translated(expr)
            relation = None if number is None else self._leaf(origin) == number
            if relation is None:
                hint = int(expr.xreplace(self._env.backed_var_to_val))
                add(self._leaf(origin) == hint, expr)
            add(relation, expr)
        parts = [
            (index - found.ranges, part)
            for index, condition in enumerate(found.conditions)
            for part in sympy.And.make_args(condition)
            if part != sympy.true
        ]
        ranges = sum(index < 0 for index, _ in parts)
        for position in needed([part for _, part in parts], ranges):
            index, part = parts[position]
            add(translated(part), part, index)
        for condition in (*self._of_unbacked(set(leaves)), *self.reals.conditions()):
            add(translated(condition), condition)
        return list(made.values())

    def _place(self, leaves: Mapping[Any, Leaf]) -> Callable[[Any], Expr | None]:
        """What a symbol is of the sizes and ints of a call."""

        def place(symbol: Any) -> Expr | None:
            leaf = leaves.get(symbol)
            return self.reals.expression(symbol, place) if leaf is None else leaf

        return place

    def _of_unbacked(self, known: set[Any]) -> Iterator[sympy.Basic]:
        """What is assumed of sizes without a value: no graph checks that of its own inputs."""
        for asserts in self._env.deferred_runtime_asserts.values():
            for each in asserts:
                symbols = each.expr.free_symbols
                if symbols.isdisjoint(self._env.unbacked_inputs):
                    continue
                if not symbols <= known:
                    raise UnknownSymbolError(f"{each.expr} is assumed, which can't be checked")
                yield each.expr

    def _leaf(self, origin: Origin) -> Leaf:
        source = self._inputs[origin.input]
        match origin.method:
            case "size":
                return SizeOf(source, origin.args[0])
            case "stride":
                return StrideOf(source, origin.args[0])
            case "storage_offset":
                return OffsetOf(source)
        return Int(source)

    def ended(self) -> None:
        """The program has been traced: what is assumed from now on is due to the backend."""
        self._traced = len(self._env.guards)

    def _why(self, index: int) -> str:
        """The line of the program that is the reason for an assumption."""
        places = self._places_of(index)
        if places:
            found = users_own(places)
            return f"{found.file}:{found.line}"
        return "the backend" if self._traced is not None and index >= self._traced else ""

    def _places_of(self, index: int) -> tuple[Place, ...]:
        if index < 0:
            return ()
        return next((places for count, places in self._places if index < count), ())

    def decisions(self) -> Decisions:
        """What was decided of the symbols; to be asked after the guards."""
        names: dict[Any, str] = {}
        for fact in self._graph.symbols.facts:
            if fact.origin.input in self._inputs:
                names.setdefault(fact.number.node._expr, str(self._leaf(fact.origin)))
        named = self._place({symbol: Named(name) for symbol, name in names.items()})
        names.update(self.reals.names(named))
        traced = len(self._env.guards) if self._traced is None else self._traced
        derived = self.reals.derived()
        return Decisions(self._env, names, self._places_of, traced, self._beyond, derived)

    def broken_marks(self) -> list[Specialized]:
        """Sizes that were marked as dynamic, and that the program or the backend has fixed."""
        found = []
        for source, dim, size, number, marked in self._marked:
            what = f"{source}.size({dim})"
            least, most = marked.get(dim, (None, None))
            if not _within(size, least, most):
                why = f"{what} is {size}, and marked as between {least} and {most}"
                found.append(Specialized(why, (), _ANOTHER_RANGE))
            elif type(number) is int:
                why = f"{what} is {size}: 0 and 1 are sizes of their own, as in torch"
                found.append(Specialized(why, (), _ANOTHER_SIZE))
            elif self.decisions().fixed(number.node._expr):
                found += self._specialized(what, size, number.node._expr)
        return list(dict.fromkeys(found))

    def _specialized(self, what: str, size: int, symbol: Any) -> Iterator[Specialized]:
        reasons = self.decisions().reasons(symbol)
        if not reasons:
            why = f"{what} must be {size}, because of what is known of other sizes"
            yield Specialized(why, (), _ANY_SIZE)
        for each in reasons:
            by = " by the backend" if each.by_backend and not each.places else ""
            why = f"{each.what}, because of {each.condition}{by}"
            yield Specialized(why, each.places, _ANOTHER_BACKEND if by else _ANY_SIZE)


def _users_line() -> Iterator[Place]:
    """The user's line that has led to a frame which C code has started."""
    code, unit = blame()
    if code is not None:
        line = decode(code).line_of(unit) or code.co_firstlineno
        found = Place(code.co_filename, line, code.co_qualname)
        if not library(found):
            yield found


def _holds(expr: Expr, why: str = "") -> Guard:
    return Guard(None, Relation(expr, why))


def _key(expr: Expr) -> tuple[Any, ...]:
    """Equal for expressions that are the same; sources count by identity: texts may be alike."""
    steps = []
    for step in expr.postfix():
        match step:
            case Leaf():
                steps.append((step.op, id(step.source), step.dim))
            case Constant():
                steps.append(("", step.number, 0))
            case Real():
                steps.append(("FLOAT", step.bits, 0))
            case Unary() | Binary():
                steps.append((step.op, 0, 0))
    return tuple(steps)


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


def _within(size: int, least: int | None, most: int | None) -> bool:
    return (least is None or size >= least) and (most is None or size <= most)


def _is_argument(source: Source | None) -> bool:
    """Whether something is given as an argument, or in one."""
    while isinstance(source, _STEPS):
        source = source.base
    return type(source) is Local


def _is_free(source: Source | None) -> bool:
    """Whether a tensor is neither a parameter nor a buffer of a module."""
    while source is not None:
        if type(source) is Attr and source.name in _HELD:
            return False
        source = source.base
    return True
