"""What the examples of the catalogue print, when they are really run.

In: a reason for a graph break or a recompile. Out: the message that its example gives, and the
graph of the version that is fixed.
"""

import io
import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch

import stator
from stator.diagnostics.catalogue import RecompileReason
from stator.diagnostics.catalogue.pages import Reason


def printed(reason: Reason) -> tuple[str, str]:
    """The message, and the graph as Python code."""
    with _as_it_was(), redirect_stdout(io.StringIO()):
        if isinstance(reason, RecompileReason):
            return _recompiles(reason), _graph(reason)
        return _break(reason), _graph(reason)


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Some examples change settings: that is what they show."""
    dtype, filters, state = torch.get_default_dtype(), warnings.filters[:], random.getstate()
    torch.manual_seed(0)
    try:
        yield
    finally:
        stator.reset()
        torch.set_default_dtype(dtype)
        warnings.filters[:] = filters  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        random.setstate(state)


def _names(source: str) -> dict[str, Any]:
    file = "example.py"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, file, "exec"), names)
    return names


def _break(reason: Reason) -> str:
    names = _names(reason.example)
    compiled = stator.compile(names["program"], backend="eager", fullgraph=True)
    try:
        compiled(*names["arguments"]())
    except stator.CaptureError as error:
        return str(error)
    raise AssertionError(f"the example of {reason.id} can be captured")


def _recompiles(reason: Reason) -> str:
    names = _names(reason.example)
    compiled = _run(names, "eager")
    return str(stator.testing.recompiles(compiled)[0])


def _graph(reason: Reason) -> str:
    codes: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        codes.append(module.code)
        return module.forward

    names = _names(reason.fixed)
    if isinstance(reason, RecompileReason):
        _run(names, backend)
    else:
        stator.compile(names["program"], backend=backend)(*names["arguments"]())
    return codes[0]


def _run(names: dict[str, Any], backend: Any) -> Any:
    options = names.get("options", {})
    compiled = stator.compile(names["program"], backend=backend, **options)
    names["calls"](compiled)
    return compiled
