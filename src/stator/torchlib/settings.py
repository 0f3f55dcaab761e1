"""Flags that decide which kernel runs or what it computes.

A flag that this torch doesn't have is not part of its state: it is left out of the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from .door import needed, optional


@dataclass(frozen=True)
class Flag:
    """A setting of torch: how to read it and how to write it."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


def c_function(name: str) -> Any:
    """A function of `torch._C` by its name, which the program has just called."""
    return getattr(torch._C, name)


with needed("whether only deterministic kernels may run"):
    from torch._C import _get_deterministic_algorithms as deterministic_algorithms
with needed("whether others warn only"):
    from torch._C import _get_deterministic_algorithms_warn_only as deterministic_warn_only
with needed("whether a profiler runs"):
    from torch._C._autograd import _profiler_enabled as profiler_enabled

mkldnn_enabled: Final = optional(
    "torch._C._get_mkldnn_enabled",
    "whether recurrent layers run in oneDNN",
    "they are taken not to",
    lambda: False,
)
set_mkldnn_enabled: Final = optional(
    "torch._C._set_mkldnn_enabled",
    "recurrent layers, differentiated by the kernels of eager",
    "they run as torch has them",
    lambda enabled: None,
)

# Where torch offers an older and a newer way to the same flag, the C function underneath is used:
# mixing the two raises.
_PAIRS: Final[dict[str, tuple[str, str]]] = {
    "fill_uninitialized_memory": (
        "_get_deterministic_fill_uninitialized_memory",
        "_set_deterministic_fill_uninitialized_memory",
    ),
    "float32_matmul_precision": (
        "_get_float32_matmul_precision",
        "_set_float32_matmul_precision",
    ),
    "fp16_reduced_precision_reduction": (
        "_get_cublas_allow_fp16_reduced_precision_reduction",
        "_set_cublas_allow_fp16_reduced_precision_reduction",
    ),
    "bf16_reduced_precision_reduction": (
        "_get_cublas_allow_bf16_reduced_precision_reduction",
        "_set_cublas_allow_bf16_reduced_precision_reduction",
    ),
    "cudnn_enabled": ("_get_cudnn_enabled", "_set_cudnn_enabled"),
    "cudnn_benchmark": ("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    "cudnn_deterministic": ("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    "mkldnn_enabled": ("_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    "sdp_math": ("_get_math_sdp_enabled", "_set_sdp_use_math"),
    "sdp_flash": ("_get_flash_sdp_enabled", "_set_sdp_use_flash"),
    "sdp_mem_efficient": ("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient"),
    "sdp_overrideable": ("_get_overrideable_sdp_enabled", "_set_sdp_use_overrideable"),
    "sdp_cudnn": ("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn"),
}


def _pair(name: str, getter: str, setter: str) -> Flag | None:
    read, write = (
        optional(f"torch._C.{each}", f"the flag {name}", "it is no part of torch's state")
        for each in (getter, setter)
    )
    if read is None or write is None:
        return None
    return Flag(read, lambda value: write(*value if isinstance(value, tuple) else (value,)))


_read_priority: Final = optional(
    "torch._C._get_sdp_priority_order",
    "the order in which kernels of attention are tried",
    "it is no part of torch's state",
)
_write_priority: Final = optional(
    "torch._C._set_sdp_priority_order", "sets that order", "it is no part of torch's state"
)


def attention_order() -> tuple[int, ...]:
    """The order in which kernels of attention are tried."""
    return tuple(_read_priority())


def _set_attention_order(order: tuple[int, ...]) -> None:
    _write_priority(list(order))


def _set_deterministic(mode: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(mode[0], warn_only=mode[1])


def _deterministic() -> tuple[bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _flags() -> dict[str, Flag]:
    found = {"deterministic": Flag(_deterministic, _set_deterministic)}
    for name, (getter, setter) in _PAIRS.items():
        flag = _pair(name, getter, setter)
        if flag is not None:
            found[name] = flag
    if _read_priority is not None and _write_priority is not None:
        found["sdp_order"] = Flag(attention_order, _set_attention_order)
    return found


FLAGS: Final[dict[str, Flag]] = _flags()

ATTENTION: Final = tuple(name for name in FLAGS if name.startswith("sdp_"))
"""Those that decide which kernel computes attention; a graph sets them itself."""

READERS: Final[dict[int, str]] = {
    **{id(flag.read): name for name, flag in FLAGS.items()},
    **({} if _read_priority is None else {id(_read_priority): "sdp_order"}),
}
"""By the id of a function that tells a flag: its name."""


def own_passes(settings: Any) -> list[str]:
    """Settings of Inductor or AOTAutograd that are functions, which their text leaves out."""
    names = getattr(settings, "_save_config_ignore", ())
    found = ((name, getattr(settings, name, None)) for name in names if "." not in name)
    return [f"{name} is a function" for name, value in found if callable(value)]
