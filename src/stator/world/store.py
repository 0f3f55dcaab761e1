"""What one trace knows of the world.

Stage: under the tracer. In: guards, and which object stands for which. Out: the tables that the
parts of a `World` share: stand-ins by raw object, records by shadow, sources by stand-in.
"""

import types
from collections.abc import Callable
from typing import Any, Final

from stator.guards import Check, Equal, Guard, Source, TypeIs
from stator.objects.types import Attribute
from stator.world.kinds import CONSTANTS
from stator.world.records import Record

ALL: Final = object()
"""Any part of an object, where one is read or written as a whole."""


def _nobody() -> tuple[None, int]:
    """No line of a program is the reason for a guard."""
    return None, 0


class Store:
    """The part of a `World` that keeps what is known."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.of_process: str | None = None  # what another process may answer otherwise
        self.blame: Callable[[], tuple[types.CodeType | None, int]] = _nobody
        self.records: dict[int, Record] = {}  # by id of the shadow
        self.stand_ins: dict[int, Any] = {}  # by id of the raw object
        self.owners: dict[int, Record] = {}  # by id of the raw dict with an object's attributes
        self.dicts: dict[int, Record] = {}  # by id of the dict with a shadow's attributes
        self.origins: dict[int, Source] = {}  # of stand-ins, by their id
        self.latest: dict[int, Source] = {}  # of those with several, the one that was read last
        self.opaque: dict[int, str] = {}  # id -> type name
        self.watch: Callable[..., None] | None = None  # told of changes: id of what, and which part
        self.evaluated: Callable[..., Any] | None = None  # calls a function of ours in the trace
        self.weakly: Callable[[Record], None] | None = None  # asked of what holds weak references
        self.made: dict[int, types.FunctionType] = {}  # functions made in the trace, by id
        self.made_classes: set[int] = set()
        self._odd: dict[int, frozenset[str]] = {}  # see `Classes.protocol`
        self.making: list[str] = []  # names of classes that are being made
        self.special: dict[int, Callable[[Any, Source], Any]] = {}  # by id of the type
        self.foreign: Callable[[Any, Source], Any] | None = None
        self.symbolic: dict[type, Callable[[Any, Source], Any]] = {}  # numbers that are left open
        self.looked: set[str] = set()  # strings that were left open, and should not have been
        self.reads: set[tuple[object, Any]] | None = None  # what is read, while a region is traced
        self.writes: dict[
            tuple[object, Any], int
        ] = {}  # what was written, and when for the last time
        self.written = 0  # how often
        self.reached: list[tuple[Any, Source]] = []  # read by regions that were not traced again
        self._alive: list[Any] = []  # ids above stay taken
        self._class_attributes: dict[tuple[int, str], Attribute | None] = {}
        self._class_values: dict[tuple[int, str], Any] = {}
        self._class_numbers: dict[int, Any] = {}  # those that are left open, by id
        self._pinned: set[int] = set()
        self.facts: set[tuple[int, str]] = set()  # fields of classes … that are guarded
        self._hashed: dict[int, Any] = {}  # world objects that were hashed, by id
        self._compared: dict[int, Any] = {}  # world objects that C code has compared, by id
        self._keys: dict[int, Any] = {}  # keys of world containers that are objects, by id
        self.class_writes: dict[tuple[int, str], Any] = {}
        self.written_classes: dict[tuple[int, str], type] = {}
        self._written_names: set[str] = set()
        self._distinct: set[tuple[int, int]] = set()

    def only_here(self, what: str) -> None:
        """Another process may answer something otherwise, though nothing has changed."""
        self.of_process = self.of_process or what

    def guard(self, source: Source, check: Check) -> None:
        self.guards.append(Guard(source, check, *self.blame()))

    def read(self, whose: object, name: Any) -> None:
        """The program reads a part of an object: of a shadow or cell by its id, or of any class."""
        if self.reads is not None:
            self.reads.add((whose, name))

    def write(self, whose: object, name: Any) -> None:
        """The program writes a part of an object."""
        self.written += 1
        self.writes[whose, name] = self.written

    def keep(self, *values: Any) -> None:
        self._alive.extend(values)

    def keeps(self, value: Any) -> bool:
        """Whether an object lives as long as the trace, whoever else holds it."""
        return any(each is value for each in self._alive)

    def wrap(self, raw: Any, source: Source) -> Any:
        """What stands for `raw`, with the guards that make it right."""
        raise NotImplementedError

    def wrap_closed(self, raw: Any, source: Source) -> Any:
        """The same, but no number is left open: C code holds it."""
        if CONSTANTS.holds(type(raw)):
            self.guard(source, Equal(raw))
            return raw
        return self.wrap(raw, source)

    def remember(self, raw: Any, stand_in: Any, source: Source) -> Any:
        """From now on `stand_in` is what the program sees for `raw`."""
        self.stand_ins[id(raw)] = stand_in
        self.origins[id(stand_in)] = source
        self._alive.append(raw)
        self._alive.append(stand_in)
        return stand_in

    def wrap_opaque(self, raw: Any, source: Source) -> Any:
        """An object that may be passed along, and of which nothing else is known."""
        self.guard(source, TypeIs(type(raw)))
        self.opaque[id(raw)] = type(raw).__qualname__
        return self.remember(raw, raw, source)
