"""The filters for warnings, where C code looks at them.

Stage: capture. In: the list that the program sees. Out: the real one in its place, while C code
runs that may warn.
"""

import _warnings
import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stator.contracts import Depth

if TYPE_CHECKING:
    from stator.capture.calls import Calls

_C: Final[Any] = _warnings
LOCKED: Final = hasattr(_C, "_filters_mutated_lock_held")
"""Since 3.14 a lock is held while the filters change."""
MUTATED: Final[Any] = _C._filters_mutated_lock_held if LOCKED else _C._filters_mutated
"""What the program calls when they have changed."""


def mutated() -> None:
    """The filters have changed: registries of what was shown before are not valid any more."""
    if not LOCKED:
        MUTATED()
        return
    _C._acquire_lock()
    try:
        MUTATED()
    finally:
        _C._release_lock()


def chosen_filters(calls: "Calls") -> list[Any] | None:
    """The warning filters that the program has put in place, if it has."""
    record = calls.tracer.known_namespace(warnings.__dict__)
    if record is None:
        return None
    held = record.shadow if record.filled else record.items
    chosen = dict.get(held, "filters")
    if type(chosen) is not list or chosen is calls.world.stand_ins.get(id(filters())):
        return None
    calls.values.ready(chosen, Depth.DEEP)
    return chosen


@contextlib.contextmanager
def in_place(chosen: list[Any]) -> Iterator[None]:
    """C code runs that may warn, and looks at the real filters: it gets those of the program.

    Changing them resets registries, as `catch_warnings` in the program does, too.
    """
    before = filters()
    warnings.filters = chosen
    mutated()
    try:
        yield
    finally:
        warnings.filters = before
        mutated()


def filters() -> list[Any]:
    """The list that C code looks at."""
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    return found
