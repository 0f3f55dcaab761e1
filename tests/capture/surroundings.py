"""The state of torch and Python around a call: what a trace must not change, and a run must."""

import hashlib
import random
import sys
import warnings

import torch


def surroundings() -> list[str]:
    """One line for each setting, random number generators included."""
    return [
        f"grad mode {torch.is_grad_enabled()}",
        f"inference mode {torch.is_inference_mode_enabled()}",
        *(
            f"autocast {device} {torch.is_autocast_enabled(device)} "
            f"{torch.get_autocast_dtype(device)}"
            for device in ("cpu", "cuda")
        ),
        f"autocast cache {torch.is_autocast_cache_enabled()}",
        f"default dtype {torch.get_default_dtype()}",
        f"default device {torch.get_default_device()}",
        f"deterministic {torch.are_deterministic_algorithms_enabled()}",
        f"function modes {torch._C._len_torch_function_stack()}",
        f"dispatch modes {torch._C._len_torch_dispatch_stack()}",
        f"torch random {_digest(bytes(torch.get_rng_state().numpy()))}",
        f"python random {_digest(repr(random.getstate()).encode())}",
        f"warning filters {len(warnings.filters)}",
        f"recursion limit {sys.getrecursionlimit()}",
        f"handled exception {sys.exc_info()[0]}",
        f"trace {sys.gettrace() is None} profile {sys.getprofile() is None}",
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:12]
