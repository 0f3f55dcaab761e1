"""An example of a foreign engine: torch.fx's symbolic tracing; eager where that fails.

python -m benchmarks.zoo --engine benchmarks.zoo.symbolic_trace:compile --family torch
"""

from collections.abc import Callable
from typing import Any

import torch.fx

_breaks: dict[str, int] = {}


def reset() -> None:
    _breaks.clear()


def corpus_stats() -> dict[str, Any]:
    return {"graph_breaks": sum(_breaks.values()), "reasons": dict(_breaks)}


def compile(
    model: Any,
    *,
    backend: Callable[..., Any],
    fullgraph: bool = False,
    dynamic: bool | None = None,
) -> Any:
    try:
        traced = torch.fx.symbolic_trace(model)
    except Exception as error:
        if fullgraph:
            raise
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        _breaks[reason] = _breaks.get(reason, 0) + 1
        return model
    return backend(traced, [])
