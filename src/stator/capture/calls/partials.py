"""`functools.partial` of a partial from before the call.

Stage: capture, for `Calls`. In: a call of the class. Out: the new partial. CPython takes the parts
of the inner one if that has no dict of attributes yet. Its stand-in always has one.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import by_contract
from stator.guards import Callback
from stator.world.records import OF_PARTIAL

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# Stands for an argument that is given later (3.14+).
_PLACEHOLDER: Final[Any] = getattr(functools, "Placeholder", object())


def _partial(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    inner = args[0] if args else None
    record = calls.world.records.get(id(inner)) if type(inner) is functools.partial else None
    if record is None:
        return by_contract(calls, frame, function, args, kwargs)
    if record.raw_dict is not None:
        calls.world.guard(record.source, Callback(_has_dict, "with a dict of attributes"))
    else:
        calls.world.guard(record.source, Callback(_is_bare, "without a dict of attributes"))
        func, given, keywords = (part.__get__(inner) for part in OF_PARTIAL)
        refused = args[-1] is _PLACEHOLDER
        if not objects.instance_dict(inner) and not refused:
            args, kwargs = [func, *_filled(given, args[1:])], {**keywords, **kwargs}
    return by_contract(calls, frame, function, args, kwargs)


def _filled(given: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    """All arguments: what was to be given later takes the first of the new ones."""
    filled, rest = [], list(more)
    for each in given:
        filled.append(rest.pop(0) if each is _PLACEHOLDER and rest else each)
    return [*filled, *rest]


def _is_bare(value: Any) -> bool:
    return objects.known_dict(value) is None


def _has_dict(value: Any) -> bool:
    return objects.known_dict(value) is not None


PARTIALS: Final[dict[int, Handler]] = {id(functools.partial): _partial}
