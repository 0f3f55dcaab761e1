"""CUDA graphs as torch keeps them for Inductor: one tree of recordings per thread and device."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .door import optional

_TREES = "torch._inductor.cudagraph_trees"  # loaded when the first graph is recorded
_OF_THREAD = "tree_manager_containers"


def _stream_of(device: int) -> int:
    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream


current_raw_stream: Callable[[int], int] = optional(
    "torch._C._cuda_getCurrentRawStream",
    "which stream is the current one",
    "torch's own function is asked, which is slower",
    _stream_of,
)


def end_step() -> None:
    """Memory of this thread's last results may be used again, unless the program marks its steps.

    torch has one number for all threads by which it tells steps apart. A step of one thread must
    not end one of another in its middle: so it is only forgotten, here, which one was the last.
    """
    trees = sys.modules.get(_TREES)
    if trees is None:
        return
    for container in _containers(trees).values():
        manager = getattr(container, "tree_manager", None)
        if manager is not None and not manager.user_invoked_mark_step():
            manager.current_gen = None


def _containers(trees: Any) -> Mapping[Any, Any]:
    local: Any = getattr(trees, "local", None)
    known: Mapping[Any, Any] | None = getattr(local, _OF_THREAD, None)
    if known is not None:
        return known
    if not torch._C._is_key_in_tls(_OF_THREAD):
        return {}
    found: Mapping[Any, Any] = torch._C._get_obj_in_tls(_OF_THREAD)
    return found
