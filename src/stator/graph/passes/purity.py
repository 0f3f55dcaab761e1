"""Which recorded nodes may be dropped when nobody uses their result.

A node may go if its target is known to be pure. What is unknown stays: custom operators, functions
that are not torch's. That a call changed a tensor in place is seen when it is recorded
(`OutputGraph.call`), except where torch itself doesn't count the change; those are listed here.
"""

import builtins
import operator
import types
from collections.abc import Mapping
from typing import Any, Final

import torch
import torch.fx as fx

from stator.objects.types import of_torch
from stator.torchlib.operators import OpOverload, OpOverloadPacket

COMPUTES: Final = "stator_computes"  # attribute of functions of ours that call torch's, no more
KEEP: Final = "stator_keep"  # in node.meta: the recorder saw an effect
WRITTEN: Final = "stator_written"  # in node.meta: storages of the tensors that a call has changed
DRAWS: Final = "stator_draws"  # in node.meta: how many operators draw in the body that it calls
ONCE: Final = "stator_once"  # in node.meta: what it does can't be undone
REFUSES: Final = "stator_refuses"  # in node.meta: it may refuse the values that it gets

# They advance the random number generator. The names are those of functions and methods; a test
# compares them with the operators that torch tags as random.
RANDOM: Final[frozenset[str]] = frozenset(
    [
        "_sample_dirichlet",
        "_standard_gamma",
        "alpha_dropout",
        "bernoulli",
        "binomial",
        "cauchy",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "exponential",
        "feature_alpha_dropout",
        "feature_dropout",
        "fractional_max_pool2d",
        "fractional_max_pool2d_with_indices",
        "fractional_max_pool3d",
        "fractional_max_pool3d_with_indices",
        "geometric",
        "gru",
        "gumbel_softmax",
        "log_normal",
        "lstm",
        "multi_head_attention_forward",
        "multinomial",
        "native_dropout",
        "normal",
        "normal_functional",
        "pca_lowrank",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random",
        "randperm",
        "rnn_relu",
        "rnn_tanh",
        "rrelu",
        "rrelu_with_noise",
        "rrelu_with_noise_functional",
        "scaled_dot_product_attention",
        "svd_lowrank",
        "lobpcg",
        "uniform",
    ]
)

# They change running statistics without counting it in the tensors' versions.
UNCOUNTED: Final[frozenset[str]] = frozenset(
    [
        "batch_norm",
        "native_batch_norm",
        "cudnn_batch_norm",
        "instance_norm",
        "sync_batch_norm",
        "miopen_batch_norm",
        "_batch_norm_impl_index",
        "batch_norm_update_stats",
        "batch_norm_gather_stats",
        "batch_norm_gather_stats_with_counts",
        "fused_moving_avg_obs_fake_quant",
    ]
)

# They check something, or are called for what they do.
EFFECTS: Final[frozenset[str]] = frozenset(
    [
        "_assert",
        "_assert_async",
        "_assert_scalar",
        "_assert_tensor_metadata",
        "_check",
        "_functional_assert_async",
        "__setitem__",
        "setattr",
        "setitem",
        "set_",
        "record_stream",
        "register_hook",
        "backward",
    ]
)

_KEPT: Final = RANDOM | UNCOUNTED | EFFECTS
_SEEDED: Final = torch.Tag.nondeterministic_seeded
_IN_PLACE_OPERATORS: Final[frozenset[str]] = frozenset(
    f"i{name.strip('_')}"
    for name in dir(operator)
    if name.startswith("__") and hasattr(operator, f"__i{name[2:]}")
)


def is_torch_function(target: object) -> bool:
    """Whether a callable belongs to torch itself, `operator`, or is `getattr`/`setattr`.

    stator's own operator (`numbers`) only computes, as torch's do.
    """
    if isinstance(target, OpOverload | OpOverloadPacket):
        return str(target).partition(".")[0] in {"aten", "prims", "stator"}
    if target is builtins.getattr or target is builtins.setattr:
        return True
    if type(target) is types.FunctionType and COMPUTES in vars(target):
        return True
    owner = getattr(target, "__self__", None)
    if isinstance(owner, type) and of_torch(owner.__module__):
        return True  # torch.relu is a builtin method of torch._C._VariableFunctionsClass
    module = getattr(target, "__module__", None)
    if module is None and hasattr(target, "__objclass__"):
        module = target.__objclass__.__module__
    return module in {"_operator", "operator", "math"} or of_torch(module)


def has_effect(name: str) -> bool:
    """Whether the name of a function or method says that it is called for what it does."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in _KEPT or name.strip("_") in _IN_PLACE_OPERATORS


def may_write(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of that name may write to its arguments."""
    return "out" in kwargs or has_effect(name)


def may_drop(node: fx.Node) -> bool:
    """Whether a node without users can be erased."""
    if KEEP in node.meta or node.op in {"placeholder", "output"}:
        return False
    if node.op == "get_attr":
        return True
    target = node.target
    if isinstance(target, str):
        return node.op == "call_method" and not has_effect(target)
    if not is_torch_function(target) or isinstance(target, OpOverloadPacket) or node.is_impure():
        return False
    if isinstance(target, OpOverload):
        return not target._schema.is_mutable and _SEEDED not in target.tags
    writes = "out" in node.kwargs or node.kwargs.get("inplace") is True
    return not writes and not has_effect(getattr(target, "__name__", ""))
