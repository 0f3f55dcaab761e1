"""Functions of the world that are called: their code, and the defaults of their parameters.

Stage: capture, for `Calls`. In: a function, and the frame that CPython has begun for it. Out:
guards on what the function is, and parameters that hold stand-ins instead of raw defaults.
"""

import types
from typing import Any

from stator._native import _core as core
from stator._native._core import Frame
from stator.guards import (
    Code,
    Defaults,
    Fixed,
    Index,
    Is,
    Key,
    Keys,
    KwDefaults,
    Length,
    Source,
)
from stator.world import World
from stator.world.identity import is_fixed
from stator.world.kinds import CONSTANTS


def guard_function(world: World, function: Any) -> None:
    """What a function does is what its code says, and its defaults."""
    source = world.origins[id(function)]
    if type(source) is Fixed:
        source = Fixed(function, function.__qualname__)
    world.guard(Code(source), Is(function.__code__))
    if function.__defaults__ is not None:
        same = Is(function.__defaults__) if is_fixed(source) else Length(len(function.__defaults__))
        world.guard(Defaults(source), same)


def guard_misfit(world: World, function: Any) -> None:
    """Arguments don't fit a function: there are no more defaults than there are."""
    guard_function(world, function)
    source = world.origins[id(function)]
    if function.__defaults__ is None:
        world.guard(Defaults(source), Is(None))
    named = function.__kwdefaults__
    world.guard(KwDefaults(source), Is(None) if named is None else Keys(tuple(named)))


def wrap_defaults(world: World, frame: Frame, function: Any) -> None:
    """Parameters that took their defaults hold raw world objects."""
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    source = world.origins[id(function)]
    if defaults:
        first = code.co_argcount - len(defaults)
        for index, raw in enumerate(defaults):
            if first + index < 0:
                continue  # more defaults than parameters, which CPython allows
            if not (CONSTANTS.holds(type(raw)) and is_fixed(source)):  # the tuple is guarded
                _wrap(world, frame, first + index, raw, Index(Defaults(source), index))
    if keywords:
        for index in range(code.co_argcount, code.co_argcount + code.co_kwonlyargcount):
            name = code.co_varnames[index]
            if name in keywords:
                _wrap(world, frame, index, keywords[name], Key(KwDefaults(source), name))


def _wrap(world: World, frame: Frame, index: int, raw: Any, source: Source) -> None:
    if frame[index] is raw:
        frame[index] = world.wrap(raw, source)
    elif type(frame[index]) is types.CellType:  # a generator's, which CPython has begun
        cell = frame[index]
        if core.load_cell(frame, cell) is raw:
            cell.cell_contents = world.wrap(raw, source)
