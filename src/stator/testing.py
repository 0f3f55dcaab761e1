"""For tests: what a compiled function did, and engines for the conformance harness.

    compiled = stator.compile(fn)
    ...
    compiles, hits = stator.testing.count(compiled)

An engine is a callable `(fn, *, fullgraph, backend) -> callable` with an optional
`verify(fn, compiled)`, which answers None if the engine really ran the function, else why not
(tests/conformance/engines.py). Importing this module loads no torch.
"""

import inspect
from collections.abc import Callable, Coroutine, Generator
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stator._native._core import CompiledFunction
from stator.evaluator import run, statistics

if TYPE_CHECKING:
    from stator.driver.compiler import Compiler
    from stator.driver.ledger import Compilation, Recompile


class Count(NamedTuple):
    """How often a compiled function was compiled, and served by what was compiled before."""

    compiles: int
    hits: int


def function_of(compiled: Any) -> CompiledFunction:
    """The compiled function in what `stator.compile` returned for a function, method or module."""
    found = compiled
    if not isinstance(found, CompiledFunction | MethodType):
        found = getattr(compiled, "__call__", None)  # noqa: B004 - what it is, not whether
    if isinstance(found, MethodType):
        found = found.__func__
    if not isinstance(found, CompiledFunction):
        raise TypeError(f"not compiled by stator: an object of type {type(compiled).__qualname__}")
    return found


def _compiler(compiled: Any) -> "Compiler":
    starting: Any = import_module("stator.driver.starting")
    found: Compiler = starting.compiler_of(function_of(compiled))
    return found


def count(compiled: Any) -> Count:
    """Compiles and hits since it was made, or since `stator.reset()` for the compiles.

    A call that the entry found for it has not served is no hit: its graph refused or raised.
    """
    ledger = _compiler(compiled).ledger
    tallies = [each.tally for each in ledger.compilations if each.eager is None]
    others = sum(tally.chosen - tally.runs.hits for tally in tallies)
    return Count(ledger.compiles, function_of(compiled).statistics()["hits"] - others)


def compilations(compiled: Any) -> "tuple[Compilation, ...]":
    """What was compiled: guards, graph and residual function of each entry, in order."""
    return tuple(_compiler(compiled).ledger.compilations)


def recompiles(compiled: Any) -> "tuple[Recompile, ...]":
    """Why it was compiled again, each time."""
    return tuple(_compiler(compiled).ledger.recompiles)


# ---------------------------------------------------------------------- engines


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


class Conformance:
    """stator.compile, as users call it."""

    name = "conformance"

    def setup(self) -> None:
        import_module("torch").set_num_threads(1)
        self._api = import_module("stator.api")

        def warm(x: Any) -> Any:
            return [x + i for i in range(2)]

        self(warm, fullgraph=True, backend="eager")(import_module("torch").ones(1))  # lazy imports
        self._api.reset()

    def before_test(self) -> None:
        self._api.reset()

    def __call__(self, fn: Callable[..., Any], *, fullgraph: bool, backend: str) -> Any:
        return self._api.compile(fn, fullgraph=fullgraph, backend=backend, isolate_recompiles=True)

    def verify(self, fn: Callable[..., Any], compiled: Callable[..., Any]) -> str | None:
        """Every call must have been served by one entry that captures all of the function."""
        function = function_of(compiled)
        made = compilations(compiled)
        calls = function.statistics()
        if not calls["hits"] + calls["misses"]:
            return "the compiled function was not called"
        for one in made:
            if one.eager is not None:
                return f"a path runs eagerly: {one.eager}"
            if one.broken is not None:
                return f"it was split: {one.broken.reason}"
            if one.entry.target is fn or one.entry.target is function.__wrapped__:
                return "an entry runs the function itself"
        if len(made) < calls["misses"]:
            return f"{calls['misses']} calls were not served, {len(made)} entries were made"
        return None


conformance: Final = Conformance()
