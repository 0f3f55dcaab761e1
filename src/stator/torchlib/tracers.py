"""Other tracers of torch, what they leave behind, and what modules and optimizers call inside."""

import contextlib
import sys
from types import CodeType, FunctionType
from typing import Final

import torch

from .door import needed, optional

with needed("whether torch.jit traces"):
    from torch._C import _is_tracing as is_jit_tracing
with needed("what a program asks, with the answer no"):
    from torch._jit_internal import is_scripting
with needed("how a graph writes an operator"):
    from torch.fx.node import _get_qualified_name as qualified_name
with needed("the number in a tensor that an optimizer keeps"):
    from torch.optim.optimizer import _get_value as optimizer_value
module_call: Final = torch.nn.Module._call_impl
"""What `module(x)` does; subclasses of all versions have it."""

# ---------------------------------------------------------------------- other tracers

_fx_flag: Final = optional(
    "torch.fx._symbolic_trace._get_is_fx_tracing",
    "whether torch.fx traces in this thread",
    "before torch 2.15, the flag of all threads is read",
)
_fx_state: Final = optional(
    "torch.fx._symbolic_trace", "the flag of all threads", "torch.fx is taken not to trace"
)


def fx_traces() -> bool:
    """Whether torch.fx traces (before torch 2.15: in any thread)."""
    if _fx_flag is not None:
        return bool(_fx_flag())
    return bool(getattr(_fx_state, "_is_fx_tracing_flag", False))


_fx_traceback: Final = optional(
    "torch.fx.traceback", "what programs note on operations", "nodes have none of it"
)


def annotations() -> dict[str, object]:
    """The dict in which `torch.fx.traceback.annotate` holds what a program notes on operations."""
    found = getattr(_fx_traceback, "current_meta", None)
    return found if type(found) is dict else {}


jit_cached_function: Final = optional(
    "torch.jit._state._try_get_jit_cached_function",
    "what torch.jit has made of a function",
    "a call of a script is taken for one of torch's own functions",
    lambda function: None,
)


def dynamo_wrapper_code() -> CodeType | None:
    """The code of what `torch._compile._disable_dynamo` makes of a function, where it is as known.

    Functions that Dynamo has trouble with (in torch.optim, for one) are wrapped in it.
    """
    decorator = optional(
        "torch._compile._disable_dynamo",
        "functions that torch keeps from Dynamo",
        "they are evaluated as they are",
    )
    if not isinstance(decorator, FunctionType):
        return None
    for const in decorator.__code__.co_consts:
        if type(const) is CodeType and const.co_freevars == ("fn", "recursive"):
            return const
    return None


def is_allowed_by_dynamo(function: FunctionType) -> bool:
    """Whether the program has told torch to keep a function whole in graphs.

    Only who has loaded torch._dynamo can have done so.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None:
        return False
    allowed = getattr(vars(rules).get("_allowed_callable_ids"), "function_ids", None)
    return allowed is not None and id(function) in allowed


# ---------------------------------------------------------------------- what is left behind

_source_loader: Final = optional(
    "torch.fx.graph_module._loader",
    "the source of graph modules, kept for tracebacks",
    "it stays in memory",
)


def forget_source(file: str) -> None:
    """torch.fx keeps the source of every graph module; this one's goes."""
    cache = getattr(_source_loader, "eval_cache", None)
    if type(cache) is dict:
        cache.pop(file, None)


RecordFunction: Final = optional(
    "torch._C._profiler._RecordFunctionFast",
    "the range of a graph in a profile",
    "graphs have no ranges there",
    lambda name: contextlib.nullcontext(),
)
logging: Final = optional(
    "torch._logging", "`torch._logging.set_logs` after `install()`", "it means torch's own logs"
)
tensor_module: Final = optional(
    "torch._tensor", "what `copy` of a tensor notes", "copies of tensors are not looked into"
)


def code_of(path: str, what: str, without: str) -> CodeType | None:
    """The code of a Python function of torch, by which its frames are recognised."""
    found = optional(path, what, without)
    return found.__code__ if isinstance(found, FunctionType) else None


ENGINE: Final = code_of(
    "torch.autograd.graph._engine_run_backward",
    "a call from inside of a backward",
    "it is compiled as any other call",
)
