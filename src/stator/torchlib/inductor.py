"""Inductor, which is expensive to load: each part when it is first asked for."""

from importlib import import_module
from typing import Any

from .door import needed, optional


def package() -> Any:
    """The modes that Inductor knows."""
    with needed("the modes of Inductor"):
        return import_module("torch._inductor")


def config() -> Any:
    """Its settings."""
    with needed("the settings of Inductor"):
        return import_module("torch._inductor.config")


def compile_fx() -> Any:
    """What compiles a graph."""
    with needed("Inductor, the default backend; others can be named"):
        return import_module("torch._inductor.compile_fx").compile_fx


def compile_fx_inner() -> Any:
    """What it compiles a forward or a backward by, each when it is needed."""
    with needed("Inductor, the default backend; others can be named"):
        return import_module("torch._inductor.compile_fx").compile_fx_inner


def instruction_sets() -> list[Any]:
    """Those of processors that it may write kernels for, the best first; none if it has no list."""
    found: list[Any] = optional(
        "torch._inductor.cpu_vec_isa.supported_vec_isa_list",
        "the instruction sets that Inductor tries",
        "each of them is tried",
        [],
    )
    return found


def is_as_usual() -> bool:
    """Whether no setting asks it for more than to generate code: it is not to be left out then."""
    settings = config()
    return not any(getattr(settings, name, None) for name in _ASKS_FOR_MORE)


_ASKS_FOR_MORE = (
    "cpp_wrapper",
    "freezing",
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "max_autotune",
    "max_autotune_gemm",
    "max_autotune_pointwise",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
)
