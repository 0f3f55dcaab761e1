"""Copies of inputs that the graph changes afterwards, where Inductor would leave them out.

In: a graph in which what is computed from such inputs is marked (`graph/passes/overwritten.py`): a
backward must find it, and not compute it again. Out: the same, with an operator of ours behind what
Inductor takes for nothing (`queue.clone()`, `x + 0`): it would put the input itself there, whose
values are others when the backward reads them.
"""

from typing import Any, Final

import torch
import torch.fx as fx
from torch.utils.checkpoint import CheckpointPolicy

_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "FRAGMENT")  # alive as long as we are
# What may be the same as its argument, by name.
_NAMES: Final = (
    "clone contiguous deepcopy __deepcopy__ to type float double half bfloat16 int long bool "
    "add sub mul div truediv true_divide pow cat concat concatenate repeat tile pad flip roll "
    "ceil floor round trunc getitem index_select where positive"
)
_NOTHING: Final = frozenset(_NAMES.split())

_LIBRARY.define("kept(Tensor value) -> Tensor")
_LIBRARY.impl("kept", torch.clone, "CompositeExplicitAutograd")
_library.register_fake("stator::kept", torch.clone, lib=_LIBRARY)
_library.register_autograd("stator::kept", lambda _, gradient: gradient, lib=_LIBRARY)


def keep_copies(module: fx.GraphModule) -> None:
    """Changes the graph."""
    changed = False
    for node in list(module.graph.nodes):
        if node.meta.get("recompute") is CheckpointPolicy.MUST_SAVE and _may_be_nothing(node):
            with module.graph.inserting_after(node):
                kept = module.graph.call_function(torch.ops.stator.kept.default, (node,))
            kept.meta = dict(node.meta)
            node.replace_all_uses_with(kept, delete_user_cb=lambda user, own=kept: user is not own)
            changed = True
    if changed:
        module.recompile()


def _may_be_nothing(node: fx.Node) -> bool:
    made = node.meta.get("example_value")
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if not isinstance(made, torch.Tensor) or name.partition(".")[0] not in _NOTHING:
        return False
    given = [each.meta.get("example_value") for each in node.all_input_nodes]
    return any(isinstance(each, torch.Tensor) and each.dtype is made.dtype for each in given)
