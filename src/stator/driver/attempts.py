"""Entries whose graph may turn out to be wrong for the values it gets.

Stage: driver. In: a residual function whose graph raises `Refused` when a check of it fails, with
everything as it was before. Out: the target of an entry that calls, in such a case, what takes
nothing for granted.
"""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from stator._native._core import CompiledFunction
from stator.driver.fallback import hide_frame, is_bound_as_given, unbinding
from stator.graph.retry import Refused

_PATIENCE: Final = 3  # failures, before they are counted against calls


def attempting(
    residual: Callable[..., Any],
    code: CodeType,
    careful: Callable[[FunctionType], CompiledFunction] | None,
    *,
    fetches: bool,
    tails: bool,
) -> Callable[..., Any]:
    """Calls the residual function or, if its graph refuses, the careful one, or the original.

    The last value fetched is the function that is called. The entry tails. `careful` makes what
    takes nothing for granted, anew each time: what it would be kept by is the function itself.
    """
    direct = is_bound_as_given(code)
    call_bound = unbinding(code)
    calls = failures = 0

    def call(fetched: tuple[Any, ...], *bound: Any) -> Any:
        nonlocal calls, failures
        calls += 1
        try:
            # A graph that fails every other time costs more than it gains: it is given up.
            if failures < _PATIENCE or 2 * failures < calls:
                try:
                    result = residual(fetched[:-1], *bound) if fetches else residual(*bound)
                    return result if tails else (None, result)
                except Refused:
                    failures += 1
            if careful is None:
                return None, call_bound(fetched[-1:], *bound)
            other = careful(fetched[-1])
            return (other, *bound) if direct else (None, call_bound((other,), *bound))
        except BaseException as error:
            hide_frame(error)
            raise

    return call
