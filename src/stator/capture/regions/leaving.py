"""Tensors that leave a region otherwise than as its results: by a list, an attribute, a variable.

Stage: capture. In: the error about a tensor that the graph does not know. Out: the reason for which
the trace ends, which knows the tensor: its region is inlined the next time (`Regions.inside`).
"""

from stator.diagnostics.catalogue import RegionContents
from stator.graph import UntrackedTensorError


def left(error: UntrackedTensorError, what: str) -> RegionContents:
    signal = RegionContents(f"a tensor has left a region sideways, {what}")
    signal.__dict__["left"] = error.tensor
    return signal


def tensor_of(signal: object) -> object:
    """The tensor, if that is the reason; else None."""
    return signal.__dict__.get("left") if type(signal) is RegionContents else None
