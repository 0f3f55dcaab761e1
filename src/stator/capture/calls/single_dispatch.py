"""Functions with an implementation for each type (`functools.singledispatch`) in a trace.

Stage: capture, for `Calls`. In: a call of the function that looks an implementation up. Out: the
same look-up, without its cache: that refers weakly to all classes that were ever asked for, and
tells nothing that the registered functions don't.
"""

import functools
import types
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.calls.python_calls import know_function

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_find: Final[Any] = functools._find_impl  # type: ignore[attr-defined]
_DISPATCH: Final = next(
    each
    for each in functools.singledispatch.__code__.co_consts
    if isinstance(each, types.CodeType) and each.co_name == "dispatch"
)


def is_dispatch(calls: "Calls", function: Any) -> bool:
    """Whether it looks up what a generic function of the world does for a class."""
    return function.__code__ is _DISPATCH and id(function) not in calls.made


def registry(calls: "Calls", frame: Frame, function: Any) -> Any:
    """What is registered, by class."""
    know_function(calls, function)
    cell = function.__closure__[_DISPATCH.co_freevars.index("registry")]
    return calls.tracer.load_cell(frame, cell)


def implementation(registry: Any, cls: Any) -> Any:
    """What is evaluated for `dispatch(cls)`."""
    try:
        return registry[cls]
    except KeyError:
        return _find(cls, registry)
