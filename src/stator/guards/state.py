"""Guards on torch's global state: grad mode, autocast and the like.

Stage: guards; needs torch. In: nothing, or names of states. Out: guards on their present values.

The functions asked are torch's Python functions, made in C; the tree calls most of them directly.
For those that every trace depends on there are *probes*: what torch's C++ code itself asks, at 2 ns
instead of 30. A probe is verified here, in both states, before it is first used.
"""

import functools
import operator
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import torch
from torch.overrides import BaseTorchFunctionMode

from stator._native import _core
from stator.torchlib.modes import (
    AUTOCAST_DEVICES,
    BaseTorchDispatchMode,
    DispatchKey,
    DispatchKeySet,
    IncludeDispatchKeyGuard,
    dispatch_key_parse,
    is_any_autocast_enabled,
    is_key_included,
    len_dispatch_stack,
    len_function_stack,
)
from stator.torchlib.settings import deterministic_algorithms, deterministic_warn_only
from stator.torchlib.tensors import is_torch_function_enabled

from .checks import Equal
from .sources import State
from .tree import Guard

_TRACER: Final = dispatch_key_parse("Tracer")  # its key is on while torch.jit traces


STATES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    # First: where a mode is active, torch may run its Python code to answer the others.
    "torch_function_modes": (len_function_stack, ()),
    "torch_dispatch_modes": (len_dispatch_stack, ()),
    "jit_tracing": (is_key_included, (_TRACER,)),
    "torch_function": (is_torch_function_enabled, ()),
    "grad_mode": (torch.is_grad_enabled, ()),
    "inference_mode": (torch.is_inference_mode_enabled, ()),
    "default_dtype": (torch.get_default_dtype, ()),
    "deterministic": (deterministic_algorithms, ()),
    "deterministic_warn_only": (deterministic_warn_only, ()),
    "autocast_cache": (torch.is_autocast_cache_enabled, ()),
    "anomaly_mode": (torch.is_anomaly_enabled, ()),
    "num_threads": (torch.get_num_threads, ()),
    **{f"autocast_{d}": (torch.is_autocast_enabled, (d,)) for d in AUTOCAST_DEVICES},
    **{f"autocast_{d}_dtype": (torch.get_autocast_dtype, (d,)) for d in AUTOCAST_DEVICES},
}
STATES["autocast_any"] = is_any_autocast_enabled, ()

DEFAULT: Final = (
    "torch_function_modes",
    "torch_dispatch_modes",
    "jit_tracing",
    "grad_mode",
    "inference_mode",
    "autocast",
    "default_dtype",
    "deterministic",
)
"""What every trace depends on."""


def TorchState(name: str) -> State:  # noqa: N802 - reads as a source
    """A part of torch's global state, by its name in STATES."""
    function, arguments = STATES[name]
    return State(function, arguments, f"torch {name}", probe(name))


def torch_state_guards(names: Iterable[str] | None = None) -> list[Guard]:
    """Guards that the named states (all of DEFAULT unless given) stay what they are now.

    "autocast" stands for what matters of it: that it is off, in one guard where torch can say so,
    or which devices it is on for, with which dtypes.
    """
    found = []
    for name in DEFAULT if names is None else names:
        if name == "autocast":
            found += autocast_guards()
            continue
        found.append(now(name))
        if name == "deterministic" and found[-1].check.argument:
            found.append(now("deterministic_warn_only"))
    return found


def autocast_guards() -> list[Guard]:
    guard = now("autocast_any")
    if not guard.check.argument:
        return [guard]
    found = []
    for device in AUTOCAST_DEVICES:
        try:
            found.append(now(f"autocast_{device}"))
        except RuntimeError:  # unknown to this build: it can't be on
            continue
        if found[-1].check.argument:
            found.append(now(f"autocast_{device}_dtype"))
    return [*found, now("autocast_cache")]


def now(name: str) -> Guard:
    function, arguments = STATES[name]
    return Guard(TorchState(name), Equal(function(*arguments)))


# -- probes --


class Known(NamedTuple):
    """How a probe is found, and what it must answer."""

    symbol: str
    bits: int
    expected: Callable[[Any], int | None]  # given what the state's function says
    other: Callable[[], AbstractContextManager[Any]] | None  # another state, on this thread only
    argument: Callable[[], int] = lambda: 0
    exact: bool = True


def autocast_keys() -> int:
    """The bits that are all excluded while autocast is off for all devices."""
    names = [name for name in vars(DispatchKey) if name.startswith("Autocast")]
    return functools.reduce(operator.or_, (keys(getattr(DispatchKey, n)) for n in names))


def keys(key: Any) -> int:
    """The bits of a dispatch key."""
    return int(DispatchKeySet(key).raw_repr()) & (2**64 - 1)


def context() -> int:
    """Where torch keeps its global settings."""
    found = _core.state_probe("_ZN2at13globalContextEv", 0, 64, True)
    if found is None:
        raise LookupError("this build of torch does not tell")
    return _core.state_ask(found)


# As torch numbers dtypes in its C++ and C interfaces.
DTYPES: Final = {torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.bfloat16: 15}

PROBES: Final = {
    "torch_function_modes": Known(
        "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", 64, int, BaseTorchFunctionMode
    ),
    "torch_dispatch_modes": Known(
        "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", 64, int, BaseTorchDispatchMode
    ),
    "jit_tracing": Known(
        "_ZN3c104impl31tls_is_dispatch_keyset_includedENS_14DispatchKeySetE",
        8,
        int,
        lambda: IncludeDispatchKeyGuard(_TRACER),
        lambda: keys(_TRACER),
    ),
    "grad_mode": Known(
        "_ZN3c108GradMode10is_enabledEv",
        8,
        int,
        lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    ),
    "inference_mode": Known(
        "_ZN3c1013InferenceMode10is_enabledEv",
        8,
        int,
        lambda: torch.inference_mode(not torch.is_inference_mode_enabled()),
    ),
    "default_dtype": Known("_ZN3c1031get_default_dtype_as_scalartypeEv", 8, DTYPES.get, None),
    "deterministic": Known("_ZNK2at7Context23deterministicAlgorithmsEv", 8, int, None, context),
    "autocast_any": Known(
        "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE",
        8,
        lambda on: int(not on),
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        autocast_keys,
        exact=False,  # that some key is not excluded need not mean that autocast is on
    ),
}
_probes: dict[str, object | None] = {}


def probe(name: str) -> object | None:
    """The verified probe of a state, or None."""
    if name not in _probes:
        if name in PROBES and len_function_stack() > 0:
            return None  # to verify it now would call the mode
        _probes[name] = verified(name) if name in PROBES else None
    return _probes[name]


def verified(name: str) -> object | None:
    known = PROBES[name]
    try:
        found = _core.state_probe(known.symbol, known.argument(), known.bits, known.exact)
        if found is None or not agrees(name, found):
            return None
        if known.other is not None:
            with known.other():
                right = agrees(name, found)
            if not right or not agrees(name, found):
                return None
    except Exception:
        return None  # a build we don't know: ask its Python functions
    return found


def agrees(name: str, found: object) -> bool:
    function, arguments = STATES[name]
    return _core.state_ask(found) == PROBES[name].expected(function(*arguments))
