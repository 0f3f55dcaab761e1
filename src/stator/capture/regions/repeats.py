"""A record's facts for the arguments of a further call, made in one step.

Stage: capture. In: a record, and the raw arguments of a call. Out: whether its facts hold, what is
at its ways from the arguments, and the sources and guards of this call's own arguments: natively,
as a model of many equal layers has hundreds of them for each.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stator import guards
from stator._native import _core as core
from stator.capture.regions.records import Argument, RegionRecord
from stator.graph.fakes.inputs import FakeInput
from stator.guards import Aliased, Guard, GuardTree, Source
from stator.guards.sources import Missing
from stator.guards.tensors import TensorMatch

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

NOTHING: Final[Any] = object()
"""What is where a way leads nowhere."""


class Repeat:
    """What is known of a record once a second call may be one of it."""

    def __init__(self, calls: "Calls", record: RegionRecord) -> None:
        paths = record.paths
        self._number = {id(path): place for place, path in enumerate(paths)}
        self.bases = tuple(map(self._base, paths))
        values = _values(paths, self.bases, record.raws)
        self._lead = [place for place, value in enumerate(values) if value is not NOTHING]
        outputs = tuple(paths[place] for place in self._lead)
        self._whole = len(outputs) == len(paths)
        self.tree: GuardTree = guards.compile(record.checks, outputs=outputs, shortcuts=False)
        self.sources = tuple(paths)
        self.tensors: list[tuple[int, Guard, FakeInput | None]] = []
        self._relations: list[Guard] = []
        plain: list[Guard] = []
        known = {id(each.real): each for each in calls.tensors.graph.fakes.inputs}
        for fact in record.facts:
            if isinstance(fact.check, TensorMatch):
                place = self.place(fact.source)
                self.tensors.append((place, fact, known.get(id(values[place]))))
            elif isinstance(fact.check, Aliased):
                self._relations.append(fact)
            else:
                plain.append(fact)
        self._guards = tuple(plain)
        self._places = tuple(self.place(fact.source) for fact in plain)

    def place(self, source: Source | None) -> int:
        """Which of the ways it is."""
        return self._number[id(source)]

    def _base(self, source: Source) -> int | None:
        """Where it starts: at another way, at an argument (`~index`), or at the whole trace."""
        if type(source) is Argument:
            return ~source.index
        if source.base is None:
            return None
        base = self._number[id(source.base)]
        return None if self._is_of_trace(source.base) else base

    def _is_of_trace(self, source: Source | None) -> bool:
        while source is not None:
            if type(source) is Argument:
                return False
            source = source.base
        return True

    def values(self, raws: tuple[Any, ...]) -> Sequence[Any] | None:
        """What is at each of the ways; None if a fact does not hold."""
        found = self.tree.values(raws, None)
        if found is None or self._whole:
            return found
        values = [NOTHING] * len(self.sources)
        for place, value in zip(self._lead, found, strict=True):
            values[place] = value
        return values

    def guarded(self, roots: tuple[Source, ...]) -> tuple[list[Source], list[Guard]]:
        """The ways from these arguments, and the facts there, but for those of tensors."""
        sources, found = core.repeated_guards(
            self.sources, self.bases, roots, self._guards, self._places
        )
        for fact in self._relations:
            check: Any = fact.check
            others = tuple(sources[self.place(each)] for each in check.others)
            where = sources[self.place(fact.source)]
            found.append(Guard(where, type(check)(others), fact.code, fact.unit))
        return sources, found


def _values(
    paths: Sequence[Source], bases: Sequence[int | None], raws: tuple[Any, ...]
) -> list[Any]:
    """What is at each of the ways from an argument."""
    found: list[Any] = []
    for path, base in zip(paths, bases, strict=True):
        if base is None:
            found.append(NOTHING)
        elif base < 0:
            found.append(raws[~base])
        else:
            try:
                found.append(NOTHING if found[base] is NOTHING else path.read(found[base], _CALL))
            except Missing:
                found.append(NOTHING)
    return found


class _Call:
    locals = ()
    function = None


_CALL: Final[Any] = _Call()
