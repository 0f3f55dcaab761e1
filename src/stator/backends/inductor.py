"""The Inductor backend, with torch.compile's `mode` and `options`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx as fx

from stator.torchlib import inductor as torch_inductor

from . import packed_operator, recurrent, vector_instructions
from .inductor_settings import config_patches
from .kept_copies import keep_copies


def inductor(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    patches: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What Inductor compiles the graph to.

    `patches` are settings of ours: the user's mode and options overrule them.
    """
    settings = {**(patches or {}), **config_patches(mode, options)}
    recurrent.as_operators(module)
    packed_operator.as_operators(module)
    keep_copies(module)
    vector_instructions.try_each_once()
    compile_fx = torch_inductor.compile_fx()
    compiled: Callable[..., Any] = compile_fx(
        module, list(example_inputs), config_patches=settings or None
    )
    return compiled
