"""What can go wrong between a graph and a backend."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.fx as fx


class BackendError(RuntimeError):
    """A backend failed, or answered something that can't be called.

    `graph` is the text of the graph it was given, and `module` the graph itself; the backend's own
    exception is the cause.
    """

    def __init__(
        self, backend: str, problem: str, graph: str, module: "fx.GraphModule | None" = None
    ) -> None:
        super().__init__(f"backend {backend!r} {problem}\n\nThe graph it was given:\n{graph}")
        self.backend = backend
        self.problem = problem
        self.graph = graph
        self.module = module


class UnknownBackendError(LookupError):
    """No backend has this name."""


class NotCompiledError(RuntimeError):
    """A layer that should run as it is; `reason` says why."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason
