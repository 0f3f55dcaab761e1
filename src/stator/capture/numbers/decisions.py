"""What became of the symbols of a trace: created, fixed, made one; for the log and for errors.

In: torch's `ShapeEnv` after a trace (and the backend), how symbols are called in messages, and
where the program was when it made torch assume something. Out: `Created` and `Decision`s, which
can be printed, and the decisions that are the reason for what has become of one symbol.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

from stator.diagnostics.places import Place, users_own
from stator.guards.expressions import Leaf
from stator.guards.symbolic import translated

Places = tuple[Place, ...]


class Created(NamedTuple):
    """A size, stride or int that is a symbol."""

    what: str
    symbol: str
    value: Any
    why: str

    def __str__(self) -> str:
        now = "" if self.value is None else f", {self.value} in this call"
        return f"{self.what} is left open ({self.symbol}{now}), since {self.why}"


@dataclass(frozen=True)
class Decision:
    """An assumption that has fixed a symbol, or made one of two."""

    what: str
    condition: str
    places: Places
    symbols: frozenset[Any] = field(default=frozenset(), repr=False)
    by_backend: bool = False

    @property
    def where(self) -> str:
        """The line of the program, as in guards."""
        if self.places:
            found = users_own(self.places)
            return f"{found.file}:{found.line}"
        return "the backend" if self.by_backend else ""

    def __str__(self) -> str:
        where = f" at {self.where}" if self.places else " by the backend" * self.by_backend
        return f"{self.what}, because of {self.condition},{where}".removesuffix(",")


class Decisions:
    """What was decided of the symbols of one `ShapeEnv`."""

    def __init__(
        self,
        env: Any,
        names: Mapping[Any, str],
        places: Callable[[int], Places],
        traced: int,
        beyond: Mapping[Any, tuple[sympy.Basic, Places]],
        derived: Mapping[Any, set[Any]],
    ) -> None:
        """`places` is where the program was at an assumption, of which `traced` are its own.

        `beyond` has the symbols that are fixed since no guard can check what is assumed of them,
        `derived` those that are computed from others, and from which.
        """
        self._derived = derived
        self._env = env
        self._names = names
        self._places = places
        self._traced = traced
        self._beyond = beyond

    def __iter__(self) -> Iterator[Decision]:
        fixed: set[Any] = set()
        for index, condition in self._equalities():
            symbols = [s for s in self._names if s in condition.free_symbols]
            if len(symbols) == 1:
                (symbol,) = symbols
                number = self._number(symbol, condition)
                if symbol not in fixed and number.is_number:
                    fixed.add(symbol)
                    yield self._decision(
                        f"{self._names[symbol]} must be {number}", index, condition
                    )
            elif len(symbols) > 1 and any(s in self._env.replacements for s in symbols):
                *most, last = (self._names[symbol] for symbol in symbols)
                what = f"{', '.join(most)} and {last} depend on each other"
                if all(isinstance(side, sympy.Symbol) for side in condition.args):
                    what = f"{most[0]} and {last} are one symbol"
                yield self._decision(what, index, condition)
        for symbol, (condition, places) in self._beyond.items():
            if symbol not in fixed and symbol in self._names:
                what = f"{self._names[symbol]} must be {self._env.backed_var_to_val[symbol]}"
                text = f"{self.text(condition)}, which guards can't compute"
                yield Decision(what, text, places, frozenset({symbol}), not places)

    def fixed(self, symbol: Any) -> bool:
        """Whether a symbol can have one value only."""
        if symbol in self._beyond or self._env.replace(symbol).is_number:
            return True
        floats = set(self._floats_of(symbol))
        return any(
            each in part.args and self._number(each, part).is_number
            for _, part in self._equalities()
            for each in floats
        )

    def _number(self, symbol: Any, equality: sympy.Basic) -> Any:
        """What a symbol is replaced by; torch replaces no floats."""
        if symbol in self._derived and symbol in equality.args:
            (number,) = (side for side in equality.args if side != symbol)
            return number
        return self._env.replace(symbol)

    def _floats_of(self, symbol: Any) -> Iterator[Any]:
        """Floats that follow from this symbol alone: who fixes one, fixes it."""
        for each, roots in self._derived.items():
            if roots == {symbol} and not each.is_integer:
                yield each

    def reasons(self, symbol: Any) -> list[Decision]:
        """Why a symbol is fixed: all that connects it with a number."""
        known, found = {symbol, *self._floats_of(symbol)}, list[Decision]()
        decisions = list(self)
        size = 0
        while size != len(known):
            size = len(known)
            for decision in decisions:
                if decision not in found and not known.isdisjoint(decision.symbols):
                    known |= decision.symbols
                    found.append(decision)
        return found

    def text(self, condition: sympy.Basic) -> str:
        """A condition in the words of guards."""
        native = translated(condition, lambda s: Named(self._names.get(s, str(s))))
        if native is not None:
            return str(native)
        names = {
            symbol: sympy.Symbol(self._names.get(symbol, str(symbol)))
            for symbol in condition.free_symbols
        }
        return f"({condition.xreplace(names)})"

    def _equalities(self) -> Iterator[tuple[int, sympy.Basic]]:
        for index, guard in enumerate(self._env.guards):
            for part in sympy.And.make_args(guard.expr):
                if isinstance(part, sympy.Eq):
                    yield index, part

    def _decision(self, what: str, index: int, condition: sympy.Basic) -> Decision:
        places = self._places(index)
        symbols = frozenset(condition.free_symbols)
        late = index >= self._traced
        return Decision(what, self.text(condition), places, symbols, late)


class Named(Leaf):
    """A symbol in a message."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def __str__(self) -> str:
        return str(object.__getattribute__(self, "_text"))
