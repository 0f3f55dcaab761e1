"""Callables that a tracer answers by its own operations: all tables of handlers, as one.

In: the tables of the modules that define them, by what they are about. Out: `HANDLERS`, in which
each callable stands once: what happens to a call must not depend on the order of tables.
"""

from collections.abc import Mapping
from typing import Final

from stator.capture.asked import ASKED
from stator.capture.autograd_nodes import NODES
from stator.capture.cached import CACHED
from stator.capture.contexts import CONTEXTS
from stator.capture.controls import CONTROLS
from stator.capture.copies import COPIES
from stator.capture.coroutines import COROUTINES
from stator.capture.files import FILES
from stator.capture.formatting import FORMATTING
from stator.capture.garbage import GARBAGE
from stator.capture.hooks import HANDLERS as HOOKS
from stator.capture.library import LIBRARY
from stator.capture.logged import LOGGING
from stator.capture.number_methods import IN_BASES, METHODS
from stator.capture.number_tensors import NUMBER_TENSORS
from stator.capture.overridden import OVERRIDDEN
from stator.capture.printing import PRINTING
from stator.capture.scalar_calls import SCALARS
from stator.capture.settings import DEVICES
from stator.capture.special import SPECIAL, Handler
from stator.capture.transformed import TRANSFORMS
from stator.capture.vmapped import VMAP
from stator.capture.warned import WARNINGS
from stator.capture.weakly import WEAK


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
    CACHED,
    WEAK,
    LOGGING,
    SCALARS,
    METHODS,
    IN_BASES,
    CONTEXTS,
    CONTROLS,
    COROUTINES,
    FILES,
    ASKED,
    GARBAGE,
    VMAP,
    TRANSFORMS,
    NUMBER_TENSORS,
    OVERRIDDEN,
    HOOKS,
    NODES,
)
"""By the id of a callable, which lives as long as its module."""
