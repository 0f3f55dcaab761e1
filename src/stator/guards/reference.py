"""What guards mean, slowly: the oracle for the native tree.

Stage: guards. Nothing here is shared with the native evaluation but the guards themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from .checks import Callback, Same
from .sources import Missing, Source
from .tree import Guard


@dataclass
class Call:
    """A call's inputs, and what was read from them so far."""

    locals: tuple[Any, ...]
    function: Any = None
    values: dict[int, Any] = field(default_factory=dict)

    def read(self, source: Source) -> Any:
        if id(source) not in self.values:
            base = None if source.base is None else self.read(source.base)
            self.values[id(source)] = source.read(base, self)
        return self.values[id(source)]


def failing(
    guards: Iterable[Guard], locals: tuple[Any, ...], function: FunctionType | None = None
) -> list[int]:
    """The indices of all guards that do not hold.

    Functions that look at a value are asked only if what comes before them holds, its type above
    all: otherwise they count as failing, too.
    """
    call = Call(locals, function)
    found: list[int] = []
    wrong: set[int] = set()  # sources of guards that have failed
    for index, guard in enumerate(guards):
        unasked = type(guard.check) in (Callback, Same) and id(guard.source) in wrong
        if unasked or not holds(guard, call):
            found.append(index)
            wrong.add(id(guard.source))
    return found


def check(
    guards: Iterable[Guard], locals: tuple[Any, ...], function: FunctionType | None = None
) -> bool:
    """Do all guards hold?"""
    return not failing(guards, locals, function)


def holds(guard: Guard, call: Call) -> bool:
    try:
        value = None if guard.source is None else call.read(guard.source)
        return guard.check.holds(value, call.read)
    except Missing:
        return False
