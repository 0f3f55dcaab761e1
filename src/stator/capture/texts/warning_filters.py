"""The filters for warnings, where C code looks at them.

Stage: capture. In: the list that the program sees. Out: the real one in its place, while C code
runs that may warn.

C code that warns asks nobody but the filters, which are not the trace's to decide about: in a later
call there may be others, and a warning that was shown is not shown again. So it is a `Break` that
C code warns, unless the program has filters of its own (`catch_warnings`, `assertWarns`). What C
code shows is seen (`shown`); of what is known to warn, it does not matter whether it is shown
(`Warns`).
"""

import _warnings
import contextlib
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from stator.contracts import Depth
from stator.diagnostics.catalogue import WarningControl

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

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


def shown(calls: "Calls") -> None:
    """C code has warned, and shows it."""
    if chosen_filters(calls) is None:
        raise WarningControl("C code warns")


class Warns:
    """Whether CPython warns of an operation on constants."""

    def __init__(self, what: str, function: Callable[[Any], Any], example: Any) -> None:
        self._what = what
        self.it_does = False
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with contextlib.suppress(TypeError):
                function(example)
            self.it_does = bool(found)

    def carry_out(self, calls: "Calls", operation: Callable[..., Any], *args: Any) -> Any:
        """With the filters of the program, if it has any of its own."""
        chosen = chosen_filters(calls)
        if chosen is None:
            raise WarningControl(f"{self._what}, of which Python warns")
        with in_place(chosen):
            return operation(*args)


TRUTH: Final = Warns("the truth of NotImplemented is asked", bool, NotImplemented)
INVERSE: Final = Warns("a bool is inverted", operator.invert, True)


def filters() -> list[Any]:
    """The list that C code looks at."""
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    return found
