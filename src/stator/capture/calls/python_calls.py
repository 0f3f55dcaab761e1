"""Frames that are entered: Python functions that are evaluated.

Stage: capture, for `Calls`. In: a Python function with its arguments, or the frame of one that
begins. Out: the frame, with guards on what the function is, and its defaults wrapped. What is
suspended in the middle, a generator or coroutine, is noted.
"""

import weakref
from typing import TYPE_CHECKING, Any

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.defaults import guard_function, guard_misfit, wrap_defaults
from stator.capture.iterators.abandoned_generators import GENERATORS
from stator.capture.modules.module_calls import CALL

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def evaluate(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwnames: tuple[str, ...] | None
) -> Any:
    """The frame of a Python function, or what CPython makes in its place: a generator."""
    try:
        result = core.call(frame, function, args, kwnames)
    except TypeError:  # its parameters, and their defaults, say that the arguments don't fit
        if id(function) not in calls.made:
            guard_misfit(calls.world, calls.world.know(function))
        raise
    if type(result) is Frame:
        admit(calls, result, function)
    else:
        note(calls, result)
    return result


def evaluated(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A Python function that has a handler, evaluated all the same."""
    return evaluate(calls, frame, function, [*args, *kwargs.values()], tuple(kwargs) or None)


def stand_in(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwnames: tuple[str, ...] | None
) -> Any:
    """A function of the tracer is evaluated in the place of what the program calls.

    Only a trace can carry it out: a program that has to be split in it is split before the call.
    """
    result = calls.function(frame, function, args, kwnames)
    standing(calls, result)
    return result


def standing(calls: "Calls", frame: Any) -> None:
    """A program that has to be split while this frame runs is split before the call."""
    if type(frame) is Frame:
        calls.standing[id(frame)] = frame, calls.tracer.steps - 1


def admit(calls: "Calls", frame: Frame, function: Any) -> None:
    """A frame begins: parameters that took their defaults hold raw world objects."""
    if function is CALL:
        calls.tracer.modules.entered(frame)
    if id(function) in calls.made:
        return
    know_function(calls, function)
    wrap_defaults(calls.world, frame, function)


def know_function(calls: "Calls", function: Any) -> None:
    """A function of the world is called: what it does is guarded, once."""
    if id(function) in calls.made or id(function) in calls.called:
        return
    calls.called.add(id(function))
    calls.world.keep(function)
    calls.world.know(function)
    guard_function(calls.world, function)


def ours(calls: "Calls", function: Any) -> None:
    """A function of the tracer itself is evaluated: nothing about it is guarded."""
    calls.called.add(id(function))
    calls.world.know(function)


def note(calls: "Calls", value: Any) -> None:
    """Generators made in the trace are closed at its end."""
    if GENERATORS.holds(type(value)) and not calls.world.is_world(value):
        known = calls.noted.get(id(value))
        if known is None or known() is not value:
            calls.noted[id(value)] = reference = weakref.ref(value)
            calls.generators.append(reference)
            calls.made_at[id(value)] = calls.tracer.steps - 1
            calls.abandoned.held.append(value)
