"""What an exception raised on fake tensors means for the traced program."""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
)

from stator.graph.recording.errors import DataDependent, OperatorError, RecordingError, Unsupported
from stator.graph.recording.replay import eager_error
from stator.torchlib.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    MetadataMismatchError,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)

_DATA_DEPENDENT: Final = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
)
_UNSUPPORTED: Final = (
    MetadataMismatchError,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)


# What autograd says, of which fake tensors have all that real ones have: how a view was made, what
# has changed since, which mode a tensor is of. Stand-ins of zeros have not.
_AUTOGRAD: Final = (
    "is a view and is being modified inplace",
    "is a view and its base or another view of its base has been modified inplace",
    "A view was created in ",
    "Inplace update to inference tensor",
    "Inference tensors cannot be saved for backward",
)

# What torch says where a size was given as a tensor, or depends on one.
_NO_NUMBER: Final = "expected to contain only concrete integers"


class _Quiet(threading.local):
    """While active, torch doesn't log errors of fake kernels in this thread: they are handled."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def filter(self, _: logging.LogRecord) -> bool:
        return not self.depth


quiet: Final = _Quiet()
logging.getLogger("torch._subclasses.fake_tensor").addFilter(quiet.filter)


def failure_of(
    error: Exception,
    name: str,
    run: Callable[[tuple[Any, ...], dict[str, Any]], object],
    torchs: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> RecordingError:
    """The outcome of an operation that raised `error` on fake tensors.

    It is the program's error only if autograd refuses, or eager, asked with the same metadata,
    raises too. Otherwise the fake kernel is stricter than the real one, and the operation stays out
    of the graph. So it does if the function is none of torch's.
    """
    if isinstance(error, RecordingError):
        return error
    if isinstance(error, _DATA_DEPENDENT) or _NO_NUMBER in str(error):
        return DataDependent(f"the result of {name} depends on the values in a tensor")
    if isinstance(error, _UNSUPPORTED):
        return Unsupported(f"{name} can't be carried out on fake tensors: {error}")
    if torchs:
        if type(error) is RuntimeError and any(each in str(error) for each in _AUTOGRAD):
            return OperatorError(RuntimeError(str(error)))
        eager = eager_error(run, args, kwargs)
        if eager is not None:
            return OperatorError(eager)
    return Unsupported(f"{name} fails on fake tensors: {type(error).__name__}: {error}")


def refusal_of_nothing(
    run: Callable[[tuple[Any, ...], dict[str, Any]], object],
    torchs: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> OperatorError | None:
    """The error of an operation of torch's whose tensors are all empty, if eager raises one.

    Many a fake kernel lets pass what the real one refuses there, such as the maximum of nothing.
    There are no values that the real one could look at, so it says the same of other tensors.
    """
    error = eager_error(run, args, kwargs) if torchs else None
    return None if error is None else OperatorError(error)
