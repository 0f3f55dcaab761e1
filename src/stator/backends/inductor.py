"""The Inductor backend, with torch.compile's `mode` and `options`."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch.fx as fx

from stator.graph.recording.nested import calls_of
from stator.torchlib import inductor as torch_inductor

from . import certain_dropout, packed_operator, recurrent, reshaped, vector_instructions
from .inductor_settings import config_patches
from .kept_copies import keep_copies

# Inductor reuses the memory of a buffer behind a call of a region's body that still needs it:
# gradients are wrong, with torch.compile as well (torch 2.13, on the CPU).
_OF_REGIONS: Final[Mapping[str, Any]] = {"allow_buffer_reuse": False}


def inductor(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    patches: Mapping[str, Any] | None = None,
    overrules: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What Inductor compiles the graph to.

    `patches` are settings of ours; the user's mode and options overrule them, `overrules` those.
    """
    settings = {**(patches or {}), **config_patches(mode, options), **(overrules or {})}
    if calls_of(module.graph):
        settings.update(_OF_REGIONS)
    recurrent.as_operators(module)
    packed_operator.as_operators(module)
    reshaped.as_views(module)
    certain_dropout.as_products(module)
    keep_copies(module)
    vector_instructions.try_each_once()
    compile_fx = torch_inductor.compile_fx()
    # Also where it compiles a backward, which is when the program first asks for one.
    inner = same_recursion_limit()(torch_inductor.compile_fx_inner())
    compiled: Callable[..., Any] = compile_fx(
        module, list(example_inputs), inner_compile=inner, config_patches=settings or None
    )
    return compiled


@contextlib.contextmanager
def same_recursion_limit() -> Iterator[None]:
    """Inductor raises the limit for good, which a program can see."""
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        if sys.getrecursionlimit() != limit:
            sys.setrecursionlimit(limit)
