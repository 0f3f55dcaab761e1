"""Where a node comes from, as torch's tools read it from `node.meta`.

In: a node, the modules whose calls are under way, and the program's lines. Out: `nn_module_stack`,
`source_fn_stack` and `stack_trace` of the node.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import torch.fx as fx

from stator.objects.types import module_of

ModuleStack: TypeAlias = Mapping[str, tuple[str, type]]
"""By a key for each call of a module, the outermost first: the path to it, and its class."""

_TORCHS: Final = "torch.nn."


def note_origin(node: fx.Node, modules: ModuleStack, stack_trace: str | None = None) -> None:
    """What a node is part of: of a layer of torch's own, it is that; else it is what it calls."""
    origin: Any = node.target
    if modules:
        node.meta["nn_module_stack"] = dict(modules)
        *_, (_, innermost) = modules.values()
        if str(module_of(innermost)).startswith(_TORCHS):
            origin = innermost
    node.meta["source_fn_stack"] = [(node.name, origin)]
    if stack_trace is not None:
        node.meta["stack_trace"] = stack_trace
