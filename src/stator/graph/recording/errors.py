"""What recording can run into: three outcomes of an operation, and our own mistakes.

The tracer treats them differently. `OperatorError` is the program's own exception, to be raised
in the program. `DataDependent` and `Unsupported` mean that the operation can't be in the graph.
"""

from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import NoGraphOperation


class RecordingError(Exception):
    """An operation was not recorded."""


class OperatorError(RecordingError):
    """The operation fails for these arguments: the program's own exception is in `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class DataDependent(RecordingError):  # noqa: N818  (an outcome, not a fault)
    """The result depends on the values in a tensor, which are not known while recording."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unsupported(RecordingError):  # noqa: N818
    """The operation can't be carried out on fake tensors, or can't be written into a graph."""

    def __init__(
        self, reason: str, cause: type[Break] = NoGraphOperation, *, whole: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cause = cause
        self.whole = whole  # nothing around it is to be in a graph, either


class Apart(Unsupported):
    """What the operation makes is to be an input of the next graph: no arguments change that."""


class UntrackedTensorError(AssertionError):
    """A tensor reached the graph that no placeholder, constant or node has produced: our bug.

    Or it was made in a region, which is a graph of its own, and has left it not as a result.
    """

    def __init__(self, reason: str, tensor: object = None) -> None:
        super().__init__(reason)
        self.tensor = tensor
