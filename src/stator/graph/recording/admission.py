"""What a graph takes: tensors as inputs, and changes of tensors.

In: a tensor, or what an operation has written to. Out: nothing, or `Unsupported`.
"""

from collections.abc import Sequence
from typing import Any

import torch

from stator.diagnostics.catalogue import TensorStateChanged, TensorSubclass
from stator.graph.fakes.inputs import differentiable
from stator.graph.fakes.views import IN_INFERENCE, view_kind
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.operations import Operation, Target
from stator.torchlib.modes import device_constructors
from stator.torchlib.transforms import is_functorch_wrapped_tensor


def check_written(operation: Operation, written: Sequence[torch.Tensor]) -> None:
    """Refuses a change that real kernels or autograd refuse, and those of fakes may not."""
    if any(each.requires_grad and not differentiable(each) for each in written):
        text = f"{operation.shown} puts a result that requires grad into a tensor of integers"
        raise Unsupported(text)
    if not torch.is_inference_mode_enabled() and any(
        view_kind(each) == IN_INFERENCE and not each.is_inference() for each in written
    ):
        text = f"{operation.shown} changes a view that was made in inference mode"
        raise Unsupported(text, TensorStateChanged)


def check_capturable(tensor: torch.Tensor) -> None:
    """Only plain memory with strides is followed."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        kind = "a nested tensor" if tensor.is_nested else f"a tensor with layout {tensor.layout}"
        raise Unsupported(f"{kind} can't be a graph input")
    if tensor.is_quantized:
        raise Unsupported("a quantized tensor can't be a graph input")
    if is_functorch_wrapped_tensor(tensor):
        raise Unsupported("a tensor inside vmap or grad can't be a graph input")


def refuse_wrapper(tensor: torch.Tensor) -> None:
    raise Unsupported(f"a tensor of class {type(tensor).__qualname__} is made", TensorSubclass)


def apply_default_device(device: torch.device, target: Target, kwargs: dict[str, Any]) -> None:
    """What torch's function mode for `torch.set_default_device` would do, were it active."""
    wanted = kwargs.get("device") is None and not isinstance(target, tuple)
    if wanted and target in device_constructors():
        kwargs["device"] = device
