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

MUTATED: Final[Any] = _warnings._filters_mutated  # type: ignore[attr-defined]


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
    MUTATED()
    try:
        yield
    finally:
        warnings.filters = before
        MUTATED()


def filters() -> list[Any]:
    """The list that C code looks at."""
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    return found
