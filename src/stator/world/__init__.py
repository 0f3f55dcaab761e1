"""The world as a trace sees it: shadows of what existed before the call.

Stage: under the tracer. In: raw objects and the sources they were reached by. Out: objects that the
traced program may use, the guards that say what was read, and what was written. docs/capture.md has
the three regimes and their invariants.
"""

from stator.world.records import MISSING, Record
from stator.world.world import World

__all__ = ["MISSING", "Record", "World"]
