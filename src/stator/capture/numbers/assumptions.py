"""What is assumed of the symbols of a trace that have a value, and why.

Stage: capture, at the end of a trace and after the backend. In: torch's `ShapeEnv`, in which the
program and the backend have left their assumptions, and the lines of the program that made them.
Out: the guards that say for which sizes and ints the graph is right, what was decided of each
symbol, and which of the user's marks don't hold.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from stator._native._core import Frame
from stator.bytecode import decode
from stator.capture.numbers.decisions import Decisions, Named, Places
from stator.capture.numbers.reals import Reals
from stator.capture.trace.blame import blame
from stator.diagnostics.breaks import Place, stack
from stator.diagnostics.places import library, users_own
from stator.graph import OutputGraph
from stator.graph.fakes.inputs import Bounds
from stator.graph.unknown.implied import needed
from stator.graph.unknown.shape_guards import shape_guards
from stator.graph.unknown.symbols import Origin
from stator.guards import Guard, Int, OffsetOf, SizeOf, Source, StrideOf
from stator.guards.checks import Relation
from stator.guards.expressions import Binary, Constant, Expr, Leaf, Real, Unary
from stator.guards.symbolic import Translator

_ANY_SIZE: Final = "write this line for any size, or use maybe_mark_dynamic"
_ANOTHER_BACKEND: Final = "use another backend, or maybe_mark_dynamic"
_ANOTHER_RANGE: Final = "mark a range that this size is in, or don't mark tensors outside of it"
_ANOTHER_SIZE: Final = "use mark_unbacked, for which they are not, or maybe_mark_dynamic"


class UnknownSymbolError(Exception):
    """Something is assumed of a symbol that can't be checked, or a symbol would leave the graph."""


class Specialized(NamedTuple):
    """Why a size that was marked as dynamic is not, where, and what can be done."""

    why: str
    places: Places
    fix: str


class Mark(NamedTuple):
    """A size that the user has marked as dynamic."""

    source: Source
    dim: int
    size: int
    number: Any
    """What stands for it."""
    bounds: Mapping[int, Bounds]


class Assumed:
    """The assumptions of one trace."""

    def __init__(self, graph: OutputGraph, inputs: Mapping[str, Source], reals: Reals) -> None:
        self._graph = graph
        self._env: Any = graph.shape_env
        self._inputs = inputs
        self._reals = reals
        self.marked: list[Mark] = []
        self.parts: dict[tuple[str, tuple[str, ...]], Source] = {}
        """Where an input holds a tensor, by its name and the way to that."""
        self.refused = ""
        """Why no size and number may be open."""
        self._places: list[tuple[int, Places]] = []  # number of guards, then where
        self._traced: int | None = None  # number of guards when the trace ended
        self._beyond: dict[Any, tuple[sympy.Basic, Places]] = {}

    def note(self, frame: Frame | None) -> None:
        """What torch has assumed since the last time is due to the line that runs now."""
        count = len(self._env.guards)
        if count <= (self._places[-1][0] if self._places else 0):
            return
        places = () if frame is None or frame.finished else stack(frame)
        if places and library(users_own(places)):
            places = (*_users_line(), *places)
        self._places.append((count, places))

    def ended(self) -> None:
        """The program has been traced: what is assumed from now on is due to the backend."""
        self._traced = len(self._env.guards)

    def guards(self) -> list[Guard]:
        """For which sizes and ints the graph is right; to be asked after the backend ran."""
        if self.refused:
            raise UnknownSymbolError(self.refused)
        if not self._graph.symbols.facts:
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
                for symbol in self._reals.roots(meant.free_symbols):
                    if symbol not in leaves or symbol not in self._env.backed_var_to_val:
                        raise UnknownSymbolError(f"of the size {symbol} no input tells")
                    number = int(self._env.backed_var_to_val[symbol])
                    self._beyond.setdefault(symbol, (meant, self._places_of(index)))
                    add(leaves[symbol] == number, meant, index)
                return
            key = _key(expr)
            if key not in made or (why and not made[key].where):
                made[key] = relation(expr, why)

        for origin, expr in found.equal:
            number = translated(expr)
            same = None if number is None else self._leaf(origin) == number
            if same is None:
                hint = int(expr.xreplace(self._env.backed_var_to_val))
                add(self._leaf(origin) == hint, expr)
            add(same, expr)
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
        for condition in (*self._of_unbacked(set(leaves)), *self._reals.conditions()):
            add(translated(condition), condition)
        return list(made.values())

    def _place(self, leaves: Mapping[Any, Leaf]) -> Callable[[Any], Expr | None]:
        """What a symbol is of the sizes and ints of a call."""

        def place(symbol: Any) -> Expr | None:
            leaf = leaves.get(symbol)
            return self._reals.expression(symbol, place) if leaf is None else leaf

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
        if origin.path:
            source = self.parts[origin.input, origin.path]
        match origin.method:
            case "size":
                return SizeOf(source, origin.args[0])
            case "stride":
                return StrideOf(source, origin.args[0])
            case "storage_offset":
                return OffsetOf(source)
        return Int(source)

    def _why(self, index: int) -> str:
        """The line of the program that is the reason for an assumption."""
        places = self._places_of(index)
        if places:
            found = users_own(places)
            return f"{found.file}:{found.line}"
        return "the backend" if self._traced is not None and index >= self._traced else ""

    def _places_of(self, index: int) -> Places:
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
        names.update(self._reals.names(named))
        traced = len(self._env.guards) if self._traced is None else self._traced
        derived = self._reals.derived()
        return Decisions(self._env, names, self._places_of, traced, self._beyond, derived)

    def broken_marks(self) -> list[Specialized]:
        """Sizes that were marked as dynamic, and that the program or the backend has fixed."""
        found = []
        for source, dim, size, number, bounds in self.marked:
            what = f"{source}.size({dim})"
            least, most = bounds.get(dim, (None, None))
            if not within(size, least, most):
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


def relation(expr: Expr, why: str = "") -> Guard:
    """The guard that an expression over sizes and ints holds."""
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


def within(size: int, least: int | None, most: int | None) -> bool:
    """Whether a size is in the range that it is marked with."""
    return (least is None or size >= least) and (most is None or size <= most)
