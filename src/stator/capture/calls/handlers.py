"""Callables that a tracer answers by its own operations: all tables of handlers, as one.

In: the tables of the modules that define them, by what they are about. Out: `HANDLERS`, in which
each callable stands once: what happens to a call must not depend on the order of tables.
"""

from collections.abc import Mapping
from typing import Final

from stator.capture.autograd.autograd_nodes import NODES
from stator.capture.autograd.selective import SELECTIVE
from stator.capture.autograd.transforms import TRANSFORMS
from stator.capture.autograd.vmap import VMAP
from stator.capture.calls.builtin_calls import SPECIAL, Handler
from stator.capture.calls.caches import CACHED
from stator.capture.calls.controls import CONTROLS
from stator.capture.calls.partials import PARTIALS
from stator.capture.calls.whole_calls import WHOLE
from stator.capture.communication.collectives import COLLECTIVES
from stator.capture.communication.groups import GROUPS
from stator.capture.communication.sharded_calls import SHARDED
from stator.capture.communication.works import WORKS
from stator.capture.iterators.coroutines import COROUTINES
from stator.capture.library.contexts import CONTEXTS
from stator.capture.library.copies import COPIES
from stator.capture.library.csv_files import CSV
from stator.capture.library.files import FILES
from stator.capture.library.garbage_collection import GARBAGE
from stator.capture.library.library_functions import LIBRARY
from stator.capture.library.memory_streams import MEMORY_STREAMS
from stator.capture.library.system_questions import ASKED
from stator.capture.modules.backward_hooks import SET_UP
from stator.capture.modules.module_hooks import HANDLERS as HOOKS
from stator.capture.numbers.number_methods import IN_BASES, METHODS
from stator.capture.numbers.scalar_calls import SCALARS
from stator.capture.objects.weak_references import WEAK
from stator.capture.regions.nested import REGIONS
from stator.capture.regions.operators import OPERATORS
from stator.capture.tensors.number_tensors import NUMBER_TENSORS
from stator.capture.tensors.overridden import OVERRIDDEN
from stator.capture.tensors.settings import DEVICES
from stator.capture.texts.formatting import FORMATTING
from stator.capture.texts.logger_calls import LOGGING
from stator.capture.texts.printing import PRINTING
from stator.capture.texts.showing import SHOWING
from stator.capture.texts.warning_calls import WARNINGS


def _combined(*tables: Mapping[int, Handler]) -> dict[int, Handler]:
    found: dict[int, Handler] = {}
    for table in tables:
        twice = found.keys() & table.keys()
        if twice:
            names = ", ".join(getattr(table[each], "__qualname__", "?") for each in twice)
            raise AssertionError(f"two handlers for one callable: {names}")
        found.update(table)
    return found


HANDLERS: Final[Mapping[int, Handler]] = _combined(
    SPECIAL,
    LIBRARY,
    COPIES,
    DEVICES,
    WARNINGS,
    FORMATTING,
    PRINTING,
    SHOWING,
    CACHED,
    PARTIALS,
    WEAK,
    LOGGING,
    SCALARS,
    METHODS,
    IN_BASES,
    CONTEXTS,
    CONTROLS,
    COROUTINES,
    FILES,
    MEMORY_STREAMS,
    CSV,
    ASKED,
    GARBAGE,
    VMAP,
    TRANSFORMS,
    NUMBER_TENSORS,
    OVERRIDDEN,
    HOOKS,
    SET_UP,
    NODES,
    SELECTIVE,
    WHOLE,
    OPERATORS,
    REGIONS,
    COLLECTIVES,
    GROUPS,
    WORKS,
    SHARDED,
)
"""By the id of a callable, which lives as long as its module."""
