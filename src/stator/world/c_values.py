"""C objects of the world that never change: what tells one from another.

Stage: under the tracer, for `wrap_instance`. In: a raw object of a C type. Out: a function for a
guard, and the objects that it holds, which are to be the same ones; or that it is itself what it
is. No code of the user runs: parts that may be the program's own make it an object of another kind.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from stator import objects
from stator.objects.types import module_of, qualname_of


class Known(NamedTuple):
    """What is guarded of an object."""

    facts: tuple[Any, ...]
    """Of exact types of C, compared by their texts, too: 0.0 is not -0.0."""
    held: tuple[Any, ...] = ()
    """Compared by identity."""


# Each is the object that it is: made once, and kept.
_THEMSELVES: Final = frozenset(
    {("zoneinfo", "ZoneInfo"), ("builtins", "EncodingMap"), ("unicodedata", "UCD")}
)
_TEXTS: Final = objects.TypeSet(str, bytes)
_ZONE: Final = datetime.timezone


def is_itself(cls: type) -> bool:
    return (module_of(cls), qualname_of(cls)) in _THEMSELVES


def known(raw: Any, cls: type) -> Known | None:
    """What makes another object of the type the same; None if that can't be told."""
    told = _TOLD.get((module_of(cls), qualname_of(cls)))
    return None if told is None else told(raw)


def same(raw: Any, cls: type) -> Callable[[Any], bool]:
    """Whether another object of the same type is the same."""
    expected = known(raw, cls)
    shown = repr(expected and expected.facts)

    def is_same(value: Any) -> bool:
        found = known(value, cls)
        if found is None or expected is None or len(found.held) != len(expected.held):
            return False
        held = all(a is b for a, b in zip(found.held, expected.held, strict=True))
        return held and found.facts == expected.facts and repr(found.facts) == shown

    return is_same


def _struct(raw: Any) -> Known:
    return Known((raw.format, raw.size))


def _match(raw: Any) -> Known | None:
    if not _TEXTS.holds(type(raw.string)):  # memory that may change, or a class of the program
        return None
    return Known((raw.string, raw.pos, raw.endpos, raw.regs, raw.lastindex), (raw.re,))


def _dialect(raw: Any) -> Known:
    """Of csv: texts, numbers and booleans."""
    quoted = raw.delimiter, raw.quotechar, raw.escapechar, raw.lineterminator, raw.quoting
    return Known((*quoted, raw.doublequote, raw.skipinitialspace, raw.strict))


def _structure(raw: Any) -> Known | None:
    """A `time.struct_time`, which has more fields than items."""
    items, hidden = raw.__reduce__()[1]
    facts = (*items, *hidden.items())
    kinds = objects.TypeSet(int, str, type(None))
    plain = all(kinds.holds(type(each)) for each in (*items, *hidden.values()))
    return Known(facts) if plain else None


def _zone(raw: Any) -> Known | None:
    offset, *name = raw.__getinitargs__()
    if type(offset) is not datetime.timedelta or any(type(each) is not str for each in name):
        return None
    return Known((offset, *name))


def _moment(raw: Any) -> Known | None:
    """A time with a zone; one without is handled as a value."""
    zone = raw.tzinfo
    if type(zone) is not _ZONE and not is_itself(type(zone)):
        return None
    if type(zone) is _ZONE and _zone(zone) is None:
        return None
    return Known((raw.replace(tzinfo=None),), (zone,))


_TOLD: Final[dict[tuple[Any, Any], Callable[[Any], Known | None]]] = {
    ("_struct", "Struct"): _struct,
    ("_csv", "Dialect"): _dialect,
    ("time", "struct_time"): _structure,
    (re.Match.__module__, re.Match.__qualname__): _match,
    ("datetime", "timezone"): _zone,
    ("datetime", "datetime"): _moment,
    ("datetime", "time"): _moment,
}
