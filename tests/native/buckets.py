"""Compiled functions as the tests of dispatch need them: without a driver behind them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FunctionType
from typing import Any

from stator._native import _core
from stator._native._core import CALL_ORIGINAL, Bucket, CompiledFunction, Entry

__all__ = [
    "CALL_ORIGINAL",
    "Bucket",
    "CompiledFunction",
    "Entry",
    "Miss",
    "Mode",
    "compiled",
    "mode",
]

Miss = Callable[[CompiledFunction, tuple[Any, ...]], Any]
"""Called when no entry fits, with the bound parameters.

It returns an Entry to run, CALL_ORIGINAL, or the result of the call itself.
"""


class Mode(IntEnum):
    """What every compiled function in the process does when it is called."""

    DISPATCH = _core.MODE_DISPATCH
    EAGER = _core.MODE_EAGER
    MISS = _core.MODE_MISS


def compiled(
    function: Callable[..., Any], miss: Miss, *, name: str | None = None, isolate: bool = False
) -> CompiledFunction:
    """A compiled function without entries, in the buckets it belongs to.

    All wrappers of one code object share a bucket; an isolated one writes to a bucket of its own
    and only reads the shared one, after its own.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"a Python function is needed, not {type(function).__name__}")
    shared = _core.shared_bucket(function.__code__)
    if isolate:
        return CompiledFunction(function, miss, name=name, shared=shared)
    wrapper = CompiledFunction(function, miss, name=name, bucket=shared)
    if _core.lookup(function.__code__) is None:
        _core.attach(function.__code__, wrapper)
    return wrapper


@contextmanager
def mode(wanted: Mode) -> Iterator[None]:
    """Another mode for the whole process, for the duration of a `with` block."""
    previous = _core.set_mode(wanted)
    try:
        yield
    finally:
        _core.set_mode(previous)
