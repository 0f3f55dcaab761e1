"""Views, versions of tensors, saved tensors, the engine."""

from typing import Any

import torch

from .door import needed, optional

with needed("how a view was made, which decides what may change it"):
    from torch._C._autograd import CreationMeta
with needed("the same, of one view"):
    from torch._C._autograd import _get_creation_meta as creation_meta
with needed("views that a graph makes, as eager makes them"):
    from torch._C._autograd import _set_creation_meta as set_creation_meta
with needed("a graph that is run again, without counting twice"):
    from torch._C._autograd import _unsafe_set_version_counter as set_version_counter
with needed("hooks for saved tensors, put back after a trace"):
    from torch._C._autograd import _push_saved_tensors_default_hooks as push_saved_hooks
with needed("hooks for saved tensors, taken away for a trace"):
    from torch._C._autograd import _pop_saved_tensors_default_hooks as pop_saved_hooks
with needed("which there are"):
    top_saved_hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks
with needed("what `backward()` begins with"):
    from torch.autograd import _make_grads as make_grads
with needed("recognises a module's hooks of the backward"):
    from torch.nn.modules._functions import BackwardHookFunction
with needed("what sets them up, in the forward"):
    from torch.utils.hooks import BackwardHook
with needed("`torch.utils.swap_tensors`, which moves what a guard has seen"):
    from torch._C import _swap_tensor_impl as swap_tensor_impl
with needed("which layout a gradient gets"):
    from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense
with needed("which layout a kernel chooses"):
    from torch._prims_common import suggest_memory_format
with needed("where gradients of leaves go"):
    _functions: Any = torch._C._functions
    AccumulateGrad: Any = _functions.AccumulateGrad
with needed("results that can be differentiated no more, for a reason that torch tells"):
    DelayedError: Any = _functions.DelayedError


def _function_apply() -> Any:
    found = vars(torch.autograd.Function)["apply"]
    return getattr(found, "__func__", found)


FUNCTION_APPLY: Any = _function_apply()
"""What `cls.apply` is of a `torch.autograd.Function`: Python before torch 2.15, then C."""

DECORATED_CHECKPOINT: Any = optional(
    "torch.utils.checkpoint._checkpoint_impl",
    "what a function calls that `checkpoint` has decorated, since torch 2.15",
    "it is evaluated, and ends the graph inside",
)
