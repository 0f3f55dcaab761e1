"""What can go wrong between a graph and a backend."""


class BackendError(RuntimeError):
    """A backend failed, or answered something that can't be called.

    `graph` is the text of the graph it was given; the backend's own exception is the cause.
    """

    def __init__(self, backend: str, problem: str, graph: str) -> None:
        super().__init__(f"backend {backend!r} {problem}\n\nThe graph it was given:\n{graph}")
        self.backend = backend
        self.problem = problem
        self.graph = graph


class UnknownBackendError(LookupError):
    """No backend has this name."""
