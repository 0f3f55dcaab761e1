"""Entries whose graph may turn out to be wrong for the values at hand.

Stage: driver. In: a residual function whose graph raises `Refused` then, having changed nothing.
Out: the target of the entry: it runs the function itself instead, with the same arguments.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from stator.driver.fallback import unbinding
from stator.graph.retry import Refused

_PATIENCE: Final = 16  # failures that are nothing to worry about


def attempting(
    residual: Callable[..., Any], code: CodeType, *, fetches: bool
) -> Callable[..., Any]:
    """The residual function, or what it stands for; the last value fetched is that function."""
    original = unbinding(code)
    calls = failures = 0

    def call(fetched: tuple[Any, ...], *bound: Any) -> Any:
        nonlocal calls, failures
        calls += 1
        try:
            # A graph that fails every other time costs more than it gains: it is given up.
            if failures < _PATIENCE or 2 * failures < calls:
                try:
                    return residual(fetched[:-1], *bound) if fetches else residual(*bound)
                except Refused:
                    failures += 1
            return original(fetched[-1:], *bound)
        except BaseException as error:
            # This frame is no part of the program. A bare `raise` does not enter it again.
            traceback = error.__traceback__
            assert traceback is not None
            error.__traceback__ = traceback.tb_next
            raise

    return call
