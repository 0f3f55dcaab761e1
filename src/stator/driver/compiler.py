"""One compile: trace, call the backend, emit the residual function, install the entry.

Decisions to run eagerly are entries with guards like any other, so which of two paths was seen
first never matters.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

from stator import guards as guards_module
from stator._native._core import CALL_ORIGINAL, CompiledFunction, Entry
from stator.backends.compile import compile_graph
from stator.capture import CaptureError, Trace, capture
from stator.emit import residual

# Tracing changes torch's state for a while, and backends are not made for several threads.
_lock: Final = threading.RLock()


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    backend: str | Callable[..., Any] = "inductor"
    fullgraph: bool = False
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None


class Compiler:
    """Compiles calls of one function: the `miss` of its `CompiledFunction`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.traces: list[Trace] = []
        self._warned: set[str] = set()

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        with _lock:
            found = compiled.find(bound)
            if found is not None:
                return found
            return self._compile(compiled, bound)

    def _compile(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        bucket = compiled.bucket
        trace = capture(function, bound)
        if trace.broken is not None:
            error = CaptureError.of(function.__qualname__, trace.broken)
            if self.options.fullgraph:
                raise error
            self._warn(error)
        if trace.plan is None:
            return self._eager(compiled, function, trace, bucket)
        graph = None
        if trace.recorded is not None:
            made = compile_graph(
                trace.recorded.module,
                trace.recorded.example_inputs,
                self.options.backend,
                fake_mode=trace.recorded.fake_mode,
                options=self.options.backend_options,
            )
            graph = made.function
        made_code = residual(
            trace.plan,
            code=function.__code__,
            inputs=trace.inputs if graph is not None else (),
            graph=graph,
            name=self.options.name or function.__qualname__,
        )
        tree = guards_module.compile(trace.guards, outputs=made_code.sources)
        if not tree.check(bound, function):
            failure = tree.explain(bound, function)
            raise AssertionError(f"a guard fails on the call it was made from: {failure}")
        self.traces.append(trace)
        return compiled.add_entry(
            tree, made_code.function, fetch=bool(made_code.sources), bucket=bucket
        )

    def _eager(
        self, compiled: CompiledFunction, function: FunctionType, trace: Trace, bucket: Any
    ) -> Any:
        """This path runs as it is, under the guards that say which path it is."""
        tree = guards_module.compile(trace.guards)
        entry: Entry = compiled.add_entry(tree, unbinding(function), bucket=bucket)
        del entry
        return CALL_ORIGINAL

    def _warn(self, error: CaptureError) -> None:
        text = str(error)
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"{text}\n  The function runs eagerly.", stacklevel=4)


def unbinding(function: FunctionType) -> Callable[..., Any]:
    """A function of all bound parameters, positionally, that calls the original."""
    code = function.__code__
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    variadic, named = code.co_flags & 0x04, code.co_flags & 0x08
    if not (keywords or variadic or named):
        return function
    names = code.co_varnames[count : count + keywords]

    def call(*bound: Any) -> Any:
        args = list(bound[:count])
        kwargs = dict(zip(names, bound[count : count + keywords], strict=True))
        position = count + keywords
        if variadic:
            args += bound[position]
            position += 1
        if named:
            kwargs.update(bound[position])
        return function(*args, **kwargs)

    return call
