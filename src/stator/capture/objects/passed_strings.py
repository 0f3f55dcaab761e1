"""Strings that were others in calls before: a program that only passes them on need not know them.

Stage: capture. In: a string of the world at a source that is to be left open (`Wanted.held`). Out:
a `Text` whose one part is what is at the source when the call runs. The program can keep it, return
it, join it with others and show it. If it looks at it, that is noted: the trace ends, and the call
is traced again, with the string itself, which is guarded by its value.
"""

from typing import TYPE_CHECKING, Any

from stator.effects.texts import Given, How, Piece, Text
from stator.guards import Source, TypeIs
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer


class Held:
    """The strings of one trace that are left open."""

    def __init__(self, tracer: "Tracer", wanted: frozenset[str]) -> None:
        self._tracer = tracer
        self._wanted = wanted
        self._made: dict[str, Text] = {}

    def wrap(self, raw: str, source: Source) -> Any:
        """What stands for a string; MISSING if it is not left open."""
        name = str(source)
        if name not in self._wanted:
            return MISSING
        made = self._made.get(name)
        if made is None:
            self._tracer.world.guard(source, TypeIs(str))
            piece = Piece(Given(source), How.STR)
            made = self._made[name] = self._tracer.texts.text([piece], None)
        return made
