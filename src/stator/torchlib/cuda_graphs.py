"""What is asked of CUDA in each call."""

from collections.abc import Callable

import torch

from .door import optional


def _stream_of(device: int) -> int:
    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream


current_raw_stream: Callable[[int], int] = optional(
    "torch._C._cuda_getCurrentRawStream",
    "which stream is the current one",
    "torch's own function is asked, which is slower",
    _stream_of,
)
