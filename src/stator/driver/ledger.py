"""What was compiled for a function, how often, and why again.

Stage: driver. A `Ledger` goes with a bucket of entries, and counts towards its limit; all ledgers
of a code object are in one `Family`, which counts towards the accumulated limit. Both live as long
as a compiled function uses them. Nothing here keeps tensors, modules or traces alive: guards are
those that the entry holds itself, all else is text.
"""

import itertools
import weakref
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Final

from stator._native._core import Bucket, Entry
from stator.diagnostics.breaks import CaptureError
from stator.driver.continuations import Continuations
from stator.driver.dynamics import Dynamics
from stator.driver.options import Options
from stator.guards import Guard

_REMEMBERED: Final = 64  # recompiles whose reasons are kept


@dataclass(frozen=True)
class Label:
    """What messages call a compiled function."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"

    @classmethod
    def of(cls, function: FunctionType, name: str | None = None) -> "Label":
        code = function.__code__
        return cls(name or function.__qualname__, code.co_filename, code.co_firstlineno)


@dataclass(frozen=True, eq=False)
class Compilation:
    """One entry, and where it comes from."""

    entry: Entry
    label: Label
    guards: tuple[Guard, ...]
    graph: str | None
    """The graph as Python code; None if no tensor operation was recorded."""
    residual: str
    """What runs, as Python code."""
    eager: str | None = None
    """Why the entry runs the function as it is, if it does."""
    broken: CaptureError | None = None
    """Why the program was split behind this entry, or runs as it is."""
    operators: tuple[str, ...] = ()
    """What the graph calls, in order."""
    trace_seconds: float = 0.0
    backend_seconds: float = 0.0
    number: int = field(default_factory=itertools.count(1).__next__)
    """Which compile of the process it was: parts of a program are compiled as they first run."""


@dataclass(frozen=True)
class Recompile:
    """Why a function was compiled again: for each entry, the guard that failed."""

    label: Label
    failures: tuple[str, ...]

    def __str__(self) -> str:
        reasons = "\n".join(f"  - {failure}" for failure in self.failures)
        return f"{self.label} is compiled again, since\n{reasons}"


class Family:
    """All that is compiled for one code object."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.compiles = 0
        self.shared: weakref.WeakValueDictionary[Hashable, Ledger] = weakref.WeakValueDictionary()


@dataclass(eq=False)
class Ledger:
    """What was compiled into one bucket."""

    family: Family
    bucket: Bucket
    backend: object  # kept alive: its identity is in the key
    compiles: int = 0
    compilations: list[Compilation] = field(default_factory=list)
    recompiles: deque[Recompile] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    warned: set[str] = field(default_factory=set)
    full: bool = False  # the limit was reached, and the user was told
    continuations: Continuations = field(default_factory=Continuations)
    dynamics: Dynamics = field(default_factory=Dynamics)

    def count(self) -> None:
        self.compiles += 1
        self.family.compiles += 1

    def reset(self) -> None:
        self.family.compiles = 0
        self.compiles = 0
        self.compilations.clear()
        self.recompiles.clear()
        self.warned.clear()
        self.full = False
        self.continuations.clear()
        self.dynamics.clear()
        self.bucket.clear()


# By id: equal code objects can belong to different functions. A family keeps its code alive.
_families: Final[weakref.WeakValueDictionary[int, Family]] = weakref.WeakValueDictionary()


def open_ledger(code: CodeType, options: Options, bucket: Bucket | None = None) -> Ledger:
    """The ledger for a code object: a shared one, unless a bucket is given."""
    family = _families.get(id(code))
    if family is None:
        family = _families[id(code)] = Family(code)
    if bucket is not None:
        return Ledger(family, bucket, options.backend)
    key = options.key()
    ledger = family.shared.get(key)
    if ledger is None:
        ledger = family.shared[key] = Ledger(family, Bucket(code), options.backend)
    return ledger
