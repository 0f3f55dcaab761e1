"""Recording torch calls as an FX graph: fake tensors, symbolic shapes, leaf rules, global state."""

from .errors import (
    DataDependent,
    OperatorError,
    RecordingError,
    Unsupported,
    UntrackedTensorError,
)
from .output import Input, OutputGraph, Recorded

__all__ = [
    "DataDependent",
    "Input",
    "OperatorError",
    "OutputGraph",
    "Recorded",
    "RecordingError",
    "Unsupported",
    "UntrackedTensorError",
]
