"""Where a residual function has its objects from: parameters, and the tuple `fetched`.

Stage: emit. In: sources. Out: the text that reads each, and the list of those that have to be
fetched. Fetching is done by the guards, natively and before the call; parameters are at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stator.emit.names import Names
from stator.guards import Fixed, Local, Source

_RUN: Final = 4  # so many fetched inputs in a row are passed as a slice
_MANY: Final = 8  # with so many, parameters among the inputs are fetched too
_PLAIN: Final = (int, bool, str, bytes, type(None))  # equal means equal, by C code


class Paths:
    """Numbers for sources: the same for those that lead the same way."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, Any], int] = {}
        self._known: dict[int, tuple[int, Source]] = {}

    def number(self, source: Source) -> int:
        steps = []
        step: Source | None = source
        while step is not None and id(step) not in self._known:
            steps.append(step)
            step = step.base
        number = -1 if step is None else self._known[id(step)][0]
        for step in reversed(steps):
            key = number, step.op, identity(step.argument)
            number = self._numbers.setdefault(key, len(self._numbers))
            self._known[id(step)] = number, step
        return number


def identity(argument: Any) -> Any:
    """Equal for arguments that mean the same; runs no user code."""
    if type(argument) in _PLAIN:
        return type(argument), argument
    return id(argument)


class Fetching:
    """The sources a residual function needs. All are added before the first text is asked for."""

    def __init__(self, parameters: Sequence[str], names: Names) -> None:
        self._parameters = parameters
        self._names = names
        self._name = names.fresh("fetched")
        self._paths = Paths()
        self._indices: dict[int, int] = {}
        self.sources: list[Source] = []

    @property
    def parameter(self) -> list[str]:
        """The parameter for what is fetched, if anything is."""
        return [self._name] if self.sources else []

    def add_inputs(self, inputs: Sequence[Source]) -> None:
        """The graph's inputs, first of all. Many are one tuple, which is passed without a copy."""
        fetched = sum(type(source) not in (Local, Fixed) for source in inputs)
        for source in inputs:
            if fetched >= _MANY and type(source) is Local:
                self._add(source)
            else:
                self.add(source)

    def add(self, source: Source) -> None:
        if type(source) is not Local and type(source) is not Fixed:
            self._add(source)

    def _add(self, source: Source) -> None:
        key = self._paths.number(source)
        if key not in self._indices:
            self._indices[key] = len(self.sources)
            self.sources.append(source)

    def text(self, source: Source) -> str:
        if type(source) is Local:
            return self._parameters[source.index]
        if type(source) is Fixed:
            return self._names.of(source.value, source.name or None)
        return f"{self._name}[{self._indices[self._paths.number(source)]}]"

    def arguments(self, inputs: Sequence[Source]) -> str:
        """The inputs as arguments of a call; a run of fetched ones is one slice."""
        return ", ".join(self._arguments(inputs))

    def places(self, inputs: Sequence[Source]) -> tuple[int, ...] | None:
        """Where they are: numbers of parameters, ~ those of what is fetched; None if elsewhere."""
        found = []
        for source in inputs:
            index = self._indices.get(self._paths.number(source))
            if index is not None:
                found.append(~index)
            elif type(source) is Local:
                found.append(source.index)
            else:
                return None
        return tuple(found)

    def _arguments(self, inputs: Sequence[Source]) -> Iterator[str]:
        indices = [self._indices.get(self._paths.number(source), -1) for source in inputs]
        start = 0
        while start < len(inputs):
            stop = start + 1
            while stop < len(inputs) and indices[stop] == indices[stop - 1] + 1 > 0:
                stop += 1
            if stop - start < _RUN or indices[start] < 0:
                stop = start + 1
                yield self.text(inputs[start])
            else:
                yield f"*{self._name}{self._slice(indices[start], indices[stop - 1] + 1)}"
            start = stop

    def _slice(self, start: int, stop: int) -> str:
        if (start, stop) == (0, len(self.sources)):
            return ""
        return f"[{start or ''}:{stop if stop < len(self.sources) else ''}]"
