"""Engines that drive stator from the conformance harness (tests/conformance).

An engine is a callable `(fn, *, fullgraph, backend) -> callable` with an optional
`verify(fn, compiled)`, which answers None if the engine really ran the function, else why not.
"""

import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from stator.evaluator import run, statistics


def _send(coroutine: Coroutine[Any, Any, Any], value: Any) -> Any:
    return coroutine.send(value)


def _throw(coroutine: Coroutine[Any, Any, Any], exc: BaseException) -> Any:
    return coroutine.throw(exc)


class _EvaluatedAwaitable:
    """Awaits a coroutine, evaluating each of its steps."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[..., Any] = _send
        value: Any = None
        while True:
            try:
                awaited = run(step, self.coroutine, value)
            except StopIteration as end:
                return end.value
            try:
                step, value = _send, (yield awaited)
            except BaseException as exc:
                step, value = _throw, exc


class Evaluated:
    """Evaluates each function, plain: no capture, no torch."""

    name = "evaluated"
    captures = False  # no graphs: the harness's probes of graph breaks don't apply

    def __init__(self) -> None:
        self.frames = 0

    def __call__(self, fn: Callable[..., Any], *, fullgraph: bool, backend: str) -> Any:
        def evaluated(*args: Any, **kwargs: Any) -> Any:
            self.frames = statistics().frames
            result = run(fn, *args, **kwargs)
            if inspect.iscoroutine(result):
                return _EvaluatedAwaitable(result)
            return result

        return evaluated

    def verify(self, fn: Callable[..., Any], compiled: Callable[..., Any]) -> str | None:
        """At least one frame, the function's own, must have been evaluated."""
        if statistics().frames > self.frames:
            return None
        return "no frame was evaluated"


evaluated: Final = Evaluated()
