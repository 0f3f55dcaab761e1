"""What was compiled for a function, how often, and why again.

Stage: driver. A `Ledger` goes with a bucket of entries, and counts towards its limit; all ledgers
of a code object are in one `Family`, which counts towards the accumulated limit. Both live as long
as a compiled function uses them, and the last ones that wrappers share a while longer. Nothing here
keeps tensors, modules or traces alive: guards are those that the entry holds itself, all else is
text.
"""

import contextlib
import weakref
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

from stator._native._core import Bucket, Entry
from stator.diagnostics.breaks import CaptureError
from stator.diagnostics.catalogue import reason_of
from stator.diagnostics.recompiles import REMEDIES, Cause
from stator.driver.continuations import Continuations
from stator.driver.dynamics import Dynamics
from stator.driver.label import Label
from stator.driver.living import Living
from stator.driver.numbers import NUMBERS
from stator.driver.options import Options
from stator.driver.tally import Tally
from stator.guards import Guard, Source
from stator.store.files import Stored
from stator.store.parts import Parts

_REMEMBERED: Final = 64  # recompiles whose reasons are kept
_SHOWN: Final = 4  # reasons that are printed


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
    number: int = field(default_factory=NUMBERS.__next__)
    """Which compile of the process it was: parts of a program are compiled as they first run."""
    kept: list[Any] = field(default_factory=list)
    """What lives as long as it does."""
    tally: Tally = field(default_factory=lambda: Tally(whole=False))
    """How often it was used, and how."""
    own: str | None = None
    """Why the graph runs by its own operators, though there is a backend that compiles."""
    parts: Parts | None = None
    """What it consists of, for those who store it."""
    sources: tuple[Source, ...] = ()
    """What its target gets in front of the parameters."""
    cached: bool = False
    """It was stored by another process, and not compiled in this one."""
    stored: Stored | None = None
    """As it was stored there."""


@dataclass(frozen=True)
class Misfit:
    """An entry that does not fit a call: the guard that says so."""

    number: int
    """Which compile of the process made the entry; 0 if it was made for another wrapper."""
    source: str
    """How the program reaches the value."""
    expected: str
    actual: str
    guard: str
    """The guard, as it is listed with the others of the entry."""
    cause: Cause
    where: str
    """The line of the program that made the guard, `file:line`; empty if it was none."""
    failing: int
    """How many guards of the entry fail; the one that is named is checked first."""
    guards: int
    """How many it has."""

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.source}: expected {self.expected}, got {self.actual}{where}"


@dataclass(frozen=True)
class Recompile:
    """Why a function was compiled again: for each entry, why it does not fit."""

    label: Label
    misfits: tuple[Misfit, ...]
    """The one that came closest first: of which the fewest guards fail."""

    @property
    def closest(self) -> Misfit | None:
        return self.misfits[0] if self.misfits else None

    @property
    def remedy(self) -> str:
        """What to do, so that the entry that came closest would have fitted."""
        return REMEDIES[self.misfits[0].cause] if self.misfits else ""

    @property
    def id(self) -> str:
        """The number of the page about it, in the catalogue; empty if there is none."""
        return reason_of(self.misfits[0].cause).id if self.misfits else ""

    @property
    def reasons(self) -> str:
        """As lines of a text; entries for which the same is to be said are one line."""
        texts = list(dict.fromkeys(map(str, self.misfits)))
        lines = [f"\n  - {text}" for text in texts[:_SHOWN]]
        if len(texts) > _SHOWN:
            lines.append(f"\n  - and {len(texts) - _SHOWN} more")
        return "".join(lines)

    def __str__(self) -> str:
        page = f"\n  [{self.id}] {reason_of(self.misfits[0].cause).title}" if self.misfits else ""
        return f"{self.label} is compiled again, since{self.reasons or ' it failed'}{page}"


class Family:
    """What counts towards one accumulated limit: all that is compiled for one code object.

    What is isolated has a family of its own.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.ledgers: Living[Ledger] = Living()
        self.shared: weakref.WeakValueDictionary[Hashable, Ledger] = weakref.WeakValueDictionary()

    @property
    def compiles(self) -> int:
        return sum(ledger.compiles for ledger in self.ledgers)


@dataclass(eq=False)
class Ledger:
    """What was compiled into one bucket."""

    family: Family
    bucket: Bucket
    backend: object  # kept alive: its identity is in the key
    whole: Bucket = field(init=False)
    """The entries that isolated wrappers may use: those behind which nothing is compiled."""
    compiles: int = 0
    failures: int = 0
    """How often a compile has failed because of us, without an entry."""
    compilations: list[Compilation] = field(default_factory=list)
    """One for each entry of the bucket, whoever has compiled it."""
    recompiles: deque[Recompile] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    warned: set[str] = field(default_factory=set)
    full: bool = False  # a limit was reached, and the user was told
    continuations: Continuations = field(default_factory=Continuations)
    dynamics: Dynamics = field(default_factory=Dynamics)
    noticed: tuple[Guard, ...] | None = None
    """What the first call was like, if it ran as it is (`eager_then_compile`)."""
    from_cache: set[str] = field(default_factory=set)
    """Stored entries that are in the bucket."""
    careful: "Ledger | None" = None
    """For variants that take nothing for granted."""

    def __post_init__(self) -> None:
        self.whole = Bucket(self.bucket.code)
        self.family.ledgers.add(self)
        _ledgers.add(self)

    def add(self, made: Compilation) -> None:
        """Notes what has an entry in the bucket."""
        self.compilations.append(made)
        entry = made.entry
        if not entry.tails:
            also = self.whole.add(entry.guards, entry.target, fetch=entry.fetch)
            made.tally.entries.append(also)

    def reset(self) -> None:
        self.compiles = self.failures = 0
        self.compilations.clear()
        self.recompiles.clear()
        self.warned.clear()
        self.full = False
        self.continuations.clear()
        self.dynamics.clear()
        self.noticed = None
        self.from_cache.clear()
        self.careful = None
        self.bucket.clear()
        self.whole.clear()


# By id: equal code objects can belong to different functions. A family keeps its code alive.
_families: Final[weakref.WeakValueDictionary[int, Family]] = weakref.WeakValueDictionary()
_ledgers: Final[Living[Ledger]] = Living()


# The last ones that were asked for: a function that compiles a function it makes, or a model, and
# drops it, finds what it has compiled when it is called again. By id, the latest at the end.
_recent: Final[OrderedDict[int, Ledger]] = OrderedDict()
_RECENT: Final = 32


def shared_ledger(code: CodeType, options: Options) -> Ledger:
    """The ledger that wrappers of a code object share, if they were made with such options."""
    family = _family(code)
    key = options.key()
    ledger = family.shared.get(key)
    if ledger is None:
        ledger = family.shared[key] = Ledger(family, Bucket(code), options.backend)
    if options.lasting:
        with contextlib.suppress(KeyError):  # another thread may forget them meanwhile
            _recent[id(ledger)] = ledger
            _recent.move_to_end(id(ledger))
            while len(_recent) > _RECENT:
                _recent.popitem(last=False)
    return ledger


def forget_recent() -> None:
    """What no wrapper refers to is dropped."""
    _recent.clear()


def own_ledger(
    code: CodeType, options: Options, bucket: Bucket | None = None, family: Family | None = None
) -> Ledger:
    """A new ledger for one wrapper, continuation or the like."""
    if family is None:
        family = Family(code) if options.isolate else _family(code)
    return Ledger(family, Bucket(code) if bucket is None else bucket, options.backend)


def ledgers_of(code: CodeType | None = None) -> list[Ledger]:
    """All that are in use, for one code object or at all."""
    return [each for each in _ledgers if code is None or each.bucket.code is code]


def _family(code: CodeType) -> Family:
    family = _families.get(id(code))
    if family is None:
        family = _families[id(code)] = Family(code)
    return family
