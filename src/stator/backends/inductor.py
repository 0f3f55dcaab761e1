"""The Inductor backend, with torch.compile's `mode` and `options`."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch.fx as fx

from .recurrent import layer_by_layer


def config_patches(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of Inductor that a mode or options stand for.

    Loads Inductor, which knows its modes and settings.
    """
    if mode is not None and options is not None:
        raise ValueError(f"give a mode or options, not both (mode={mode!r}, options={options!r})")
    inductor_package = import_module("torch._inductor")
    if mode is not None:
        modes: dict[str, dict[str, Any]] = inductor_package.list_mode_options()
        if mode not in modes:
            raise ValueError(f"Inductor has no mode {mode!r}. Known: {', '.join(sorted(modes))}")
        return dict(modes[mode])
    known: list[str] = inductor_package.list_options()
    patches = {}
    for name, value in (options or {}).items():
        setting = name.replace("-", "_")
        if setting not in known:
            raise ValueError(f"Inductor has no option {name!r}")
        patches[setting] = value
    return patches


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
    layer_by_layer(module)
    compile_fx = import_module("torch._inductor.compile_fx").compile_fx
    compiled: Callable[..., Any] = compile_fx(
        module, list(example_inputs), config_patches=settings or None
    )
    return compiled
