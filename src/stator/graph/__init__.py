"""Recording torch calls as an FX graph: fake tensors, symbolic shapes, leaf rules, global state."""

from stator.graph.recording.errors import (
    DataDependent,
    OperatorError,
    RecordingError,
    Unsupported,
    UntrackedTensorError,
)
from stator.graph.recording.output import Input, OutputGraph, Recorded

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
