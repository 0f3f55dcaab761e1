"""Wrapping: from a raw object at a source to what the traced program may hold.

Stage: under the tracer. In: raw objects. Out: constants (guarded by value), shadows (guarded as
they are read), raw objects that are never changed while tracing (classes, functions, modules …
guarded by identity), opaque ones. Each raw object has one stand-in, however many paths lead to it.
"""

from typing import Any

from stator import objects
from stator.guards import Aliased, Equal, Fixed, Is, Source
from stator.world.classes import Classes
from stator.world.filling import Filling
from stator.world.kinds import CONSTANTS, IDENTITIES
from stator.world.records import MISSING, Record
from stator.world.wrappers import WRAPPERS, wrap_instance


class World(Filling, Classes):
    """All that one trace knows of the world."""

    def wrap(self, raw: Any, source: Source) -> Any:
        """What stands for `raw`, with the guards that make it right."""
        cls = type(raw)
        if CONSTANTS.holds(cls):
            opened = self.symbolic.get(cls)
            if opened is not None:
                number = opened(raw, source)
                if number is not MISSING:
                    return number
            self.guard(source, Equal(raw))
            return raw
        known = self.stand_ins.get(id(raw), MISSING)
        if known is not MISSING:
            return self._again(raw, known, source)
        if id(raw) in self.records:  # a shadow that came back, through a C object that held it
            return raw
        special = self.special.get(id(cls))
        if special is not None:
            return special(raw, source)
        if objects.is_subtype(cls, type) or IDENTITIES.holds(cls):
            return self.wrap_identity(raw, source)
        wrapper = WRAPPERS.get(id(cls))
        if wrapper is not None:
            return wrapper(self, raw, source)
        return wrap_instance(self, raw, source, cls)

    def _again(self, raw: Any, known: Any, source: Source) -> Any:
        """Another path to an object that is known already."""
        first = self.origins.get(id(known))
        self.latest[id(known)] = source
        if first is None or (known is raw and type(first) is Fixed):
            self.guard(source, Is(raw))
        elif first is not source:
            self.guard(source, Aliased((first,)))
        return known

    def wrap_instance(self, raw: Any, source: Source) -> Any:
        """For rules in `special` that only look on: the object is wrapped as any other."""
        return wrap_instance(self, raw, source, type(raw))

    # ------------------------------------------------------------------ namespaces

    def namespace(self, raw: dict[str, Any]) -> Record:
        """The record of a module's globals, or another dict that lives as long as the program."""
        shadow = self.stand_ins.get(id(raw))
        if shadow is None or type(self.origins[id(shadow)]) is not Fixed:
            shadow = self.wrap(raw, Fixed(raw, _namespace_name(raw)))
        return self.records[id(shadow)]

    def lookup(self, record: Record, name: str) -> Any:
        """A name in a namespace; MISSING if it is not there."""
        self.read(id(record.shadow), name)
        if record.filled:
            return dict.get(record.shadow, name, MISSING)
        value = record.items.get(name, MISSING)
        if value is MISSING and self.has_key(record, name):
            value = record.items[name]
        return value


def _namespace_name(raw: dict[str, Any]) -> str:
    name = dict.get(raw, "__name__")
    return f"globals of {name}" if type(name) is str else "a namespace"
