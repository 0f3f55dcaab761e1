"""Guards, the native tree they become, and what it says when one fails.

Stage: guards. In: a list of guards. Out: a `GuardTree`, in which each prefix that sources share is
one node, fetched once; made natively (guards_lower.c), since a model has thousands of guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from stator._native import _core
from stator.bytecode import decode

from .checks import Check, Relation
from .sources import Source


@dataclass(slots=True, eq=False)
class Guard:
    """The check must hold for the value at the source; a relation has no source of its own."""

    source: Source | None
    check: Check
    code: CodeType | None = None
    """What the program was running when the trace made the guard, and at which unit."""
    unit: int = 0

    @property
    def where(self) -> str:
        """The line of the program that is the reason for it, `file:line`; empty if none is."""
        if self.code is None:
            return self.check.why if isinstance(self.check, Relation) else ""
        line = decode(self.code).line_of(self.unit) or self.code.co_firstlineno
        return f"{self.code.co_filename}:{line}"

    def __str__(self) -> str:
        return f"{self.source}: {self.check}" if self.source else str(self.check)


@dataclass(frozen=True)
class Failure:
    """Which guard fails, and on what: the answer of `tree.explain`.

    When all guards hold but output `i` leads nowhere, the index is `~i` and there is no guard.
    """

    index: int
    guard: Guard | None
    path: str
    expected: str
    actual: str
    value: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        which = f"guard {self.index}" if self.index >= 0 else f"output {~self.index}"
        return f"{which}: {self.path}: expected {self.expected}, got {self.actual}"


class Missing:
    """Stands for the value at a source that leads nowhere."""


def compile(
    guards: Iterable[Guard], *, outputs: Sequence[Source] = (), shortcuts: bool = True
) -> _core.GuardTree:
    """One native tree for all guards; `outputs` are the sources `tree.values` returns."""
    guards, outputs = tuple(guards), tuple(outputs)
    return _core.GuardTree(
        guards, outputs=outputs, explainer=Explainer(guards, outputs), shortcuts=shortcuts
    )


@dataclass(frozen=True)
class Explainer:
    """Turns the native answer (index, found, value) into words."""

    guards: tuple[Guard, ...]
    outputs: tuple[Source, ...]

    def __call__(self, index: int, found: bool, value: Any) -> Failure:
        """A negative index is an output that leads nowhere."""
        if index < 0:
            output = self.outputs[~index]
            return Failure(index, None, str(output), "a value", "nothing there", Missing)
        guard = self.guards[index]
        return Failure(
            index=index,
            guard=guard,
            path=str(guard.source) if guard.source else "relation",
            expected=str(guard.check),
            actual=guard.check.actual(value) if found else "nothing there",
            value=value if found else Missing,
        )
