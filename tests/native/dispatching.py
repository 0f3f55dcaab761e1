"""What the dispatch tests share: guards, and targets that show what they were called with."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from stator._native._core import CompiledFunction, Entry, GuardTree
from stator.guards import Attr, Callback, Check, Guard, Local, TypeIs, compile


def on_parameter(index: int, check: Check) -> GuardTree:
    """A guard tree of one check on one parameter."""
    return compile([Guard(Local(index), check)])


def type_is(index: int, cls: type) -> GuardTree:
    """A guard on the exact type of a parameter."""
    return on_parameter(index, TypeIs(cls))


def when(predicate: Callable[[Any], bool]) -> GuardTree:
    """A guard that calls Python with the first parameter."""
    return on_parameter(0, Callback(predicate))


def no_miss(compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
    raise AssertionError(f"{compiled} has no entry for {bound}")


def echo(*bound: Any) -> tuple[Any, ...]:
    """A target that returns the bound parameters it received."""
    return bound


def wrap(function: Any, miss: Callable[..., Any] = no_miss) -> CompiledFunction:
    assert type(function) is FunctionType
    return CompiledFunction(function, miss)


def entered(function: Any, guards: GuardTree | None = None, target: Any = echo) -> CompiledFunction:
    """A compiled function with one entry."""
    compiled = wrap(function)
    compiled.add_entry(guards, target)
    return compiled


def targets(entries: tuple[Entry, ...]) -> list[Any]:
    return [entry.target for entry in entries]


class Part:
    """Something a model holds."""


class Model:
    w: Any
    b: Any
    rank: int

    def __init__(self, *names: str) -> None:
        for name in names:
            setattr(self, name, Part())


def forward(model: Any, x: Any) -> Any:
    return "eager"


MODEL = Local(0, "model")


def tree(*names: str, extra: tuple[Guard, ...] = ()) -> GuardTree:
    """Fetches attributes of the first parameter."""
    return compile(
        [Guard(MODEL, TypeIs(Model)), *extra],
        outputs=[Attr(MODEL, name) for name in names],
    )
