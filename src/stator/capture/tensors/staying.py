"""Whether a tensor from before the call stays where it is, as far as the way to it tells.

In: the tensor and its source. Out: what `OutputGraph.add_input` is told for CUDA graphs, which read
an input where it is, or copy it at each call. Either is right; the better guess is faster.
"""

import torch

from stator import objects
from stator.guards.sources import Index, Key, Local, Source, Step

_MARK = "_dynamo_static_input_type"  # of torch's mark_static_address


def is_static(raw: torch.Tensor, source: Source) -> bool:
    """Whether it is a module's buffer, or the program says that it stays."""
    if type(source) is Key and getattr(source.of, "name", "") == "_buffers":
        return True
    own = objects.instance_dict(raw)
    return own is not None and dict.get(own, _MARK) is not None


def is_held(source: Source) -> bool:
    """Whether an object holds it, and the call does not just pass it on."""
    while isinstance(source, Step):
        if type(source) not in (Index, Key):
            return True
        source = source.of
    return type(source) is not Local
