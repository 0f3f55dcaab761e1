"""What a program of this benchmark is: a generator that calls compiled functions.

In: an `Engine`, which compiles, breaks graphs and disables. Out: one result per call, to be
compared with eager's.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol


class Engine(Protocol):
    """What a program is given."""

    def compile(self, target: Any, **options: Any) -> Any: ...

    @property
    def graph_break(self) -> Callable[[], None]: ...

    @property
    def disable(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


class Holder:
    """An object with attributes."""

    flag: Any
    last: Any
    logged: Any
    n: Any
    previous: Any
    step: Any
    tag: Any

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


Program = Callable[[Engine], Iterator[Any]]
PROGRAMS: Final[dict[str, Program]] = {}


def program(function: Program) -> Program:
    """Adds a program by its name."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    if name in PROGRAMS:
        raise ValueError(f"there is a program named {name!r} already")
    PROGRAMS[name] = function
    return function
