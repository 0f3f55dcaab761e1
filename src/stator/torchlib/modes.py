"""torch's stacks of modes, dispatch keys, and the scopes of grad mode, autocast and inference."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import overrides

from .door import needed, optional

with needed("whether the program is inside of a function mode"):
    from torch._C import _len_torch_function_stack as len_function_stack
with needed("what `with mode:` of the program does"):
    from torch._C import _push_on_torch_function_stack as push_function_mode
with needed("its end"):
    from torch._C import _pop_torch_function_stack as pop_function_mode
with needed("the modes that a trace begins inside of"):
    function_mode_stack: Any = overrides._get_current_function_mode_stack
with needed("puts back what an interrupt has taken"):
    enter_function_mode: Any = overrides._push_mode
with needed("takes away what an interrupt has left"):
    leave_function_mode: Any = overrides._pop_mode
with needed("whether the program is inside of a dispatch mode"):
    from torch._C import _len_torch_dispatch_stack as len_dispatch_stack
with needed("a mode that does nothing, to verify a guard with"):
    from torch.utils._python_dispatch import BaseTorchDispatchMode
with needed("real tensors, while fake ones are in force"):
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
with needed("the mode that a trace begins inside of"):
    from torch.utils._python_dispatch import _get_current_dispatch_mode as current_dispatch_mode
with needed("all of them"):
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_mode_stack
with needed("takes away what an interrupt has left"):
    from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode
with needed("puts back what an interrupt has taken"):
    from torch.utils._python_dispatch import _push_mode as push_dispatch_mode
with needed("the kinds of tensors that guards tell apart"):
    from torch._C import DispatchKey
with needed("the same, as bits"):
    from torch._C import DispatchKeySet
with needed("those of one tensor"):
    from torch._C import _dispatch_keys as dispatch_keys
with needed("the key that is on while torch.jit traces"):
    from torch._C import _dispatch_key_parse as dispatch_key_parse
with needed("whether it is"):
    from torch._C import _dispatch_tls_is_dispatch_key_included as is_key_included
with needed("what an interrupt may have left"):
    from torch._C import _dispatch_tls_local_include_set as included_keys
with needed("the same"):
    from torch._C import _dispatch_tls_local_exclude_set as excluded_keys
with needed("another state, to verify a guard with"):
    from torch._C import _IncludeDispatchKeyGuard as IncludeDispatchKeyGuard
with needed("dispatch keys, kept through an interrupt"):
    from torch._C import _PreserveDispatchKeyGuard as PreserveDispatchKeyGuard
with needed("what fake tensor modes switch"):
    from torch._C import _meta_in_tls_dispatch_include as is_meta_included
with needed("puts it back"):
    from torch._C import _set_meta_in_tls_dispatch_include as include_meta
with needed("what fake tensor modes switch"):
    from torch._C import _only_lift_cpu_tensors as only_lift_cpu_tensors
with needed("puts it back"):
    from torch._C import _set_only_lift_cpu_tensors as set_only_lift_cpu_tensors
with needed("decompositions written in Python, for open sizes"):
    from torch._dispatch.python import enable_python_dispatcher
with needed("kernels, while those are in force"):
    from torch._dispatch.python import no_python_dispatcher
with needed("plain tensors inside of the transforms of `torch.func`"):
    from torch._C import _DisableFuncTorch as DisableFunctorch
with needed("grad mode, as a node of a graph and around our own operators"):
    from torch._C import _set_grad_enabled as set_grad_enabled
with needed("autocast, as a node of a graph"):
    from torch.amp.autocast_mode import _enter_autocast as enter_autocast
with needed("its end"):
    from torch.amp.autocast_mode import _exit_autocast as exit_autocast
with needed("inference mode, as a node of a graph"):
    from torch.autograd.grad_mode import _enter_inference_mode as enter_inference_mode
with needed("its end"):
    from torch.autograd.grad_mode import _exit_inference_mode as exit_inference_mode
with needed("`torch.set_default_device` and `with device:`"):
    from torch.utils._device import DeviceContext
with needed("the functions that a default device means"):
    from torch.utils._device import _device_constructors as device_constructors

_device: Final = optional("torch.utils._device", "the default device", "it is taken to be the CPU")


def default_device() -> torch.device | None:
    """What `torch.set_default_device` was called with, if it was."""
    device: torch.device | None = getattr(_device, "CURRENT_DEVICE", None)
    return device


AUTOCAST_DEVICES: Final = ("cpu", "cuda", "xpu", "mps", "mtia", "hpu", "privateuseone")
"""Kinds of devices that may have autocast; a build may not know all of them."""


def _autocast_of_each() -> bool:
    for device in AUTOCAST_DEVICES:
        try:
            if torch.is_autocast_enabled(device):
                return True
        except RuntimeError:  # unknown to this build: it can't be on
            continue
    return False


is_any_autocast_enabled: Final = optional(
    "torch._C._is_any_autocast_enabled",
    "whether operators may change dtypes by themselves",
    "each kind of device is asked",
    _autocast_of_each,
)


@contextmanager
def autocast_disabled() -> Iterator[None]:
    """Code that runs later, when nobody knows what was on at the time it was written down."""
    before = []
    if is_any_autocast_enabled():
        for device in AUTOCAST_DEVICES:
            try:
                if torch.is_autocast_enabled(device):
                    before.append(device)
            except RuntimeError:  # unknown to this build
                continue
    for device in before:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in before:
            torch.set_autocast_enabled(device, True)


with needed("a Python function that is called by an operator, below autograd"):
    from torch._C import _dispatch_tls_local_exclude_set as _excluded
with needed("the same"):
    from torch._C import _dispatch_tls_local_include_set as _included
with needed("the same: it is differentiated like any code"):
    from torch._C import _ForceDispatchKeyGuard
_AT_FIRST: Final = _included(), _excluded()


def as_at_first() -> Any:
    """A block in which operators go through all of torch, as where nothing else runs."""
    return _ForceDispatchKeyGuard(*_AT_FIRST)
