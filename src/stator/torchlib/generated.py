"""What code that Inductor has generated needs of torch, when it is loaded without Inductor."""

from importlib import import_module
from typing import Final

from .door import needed

TENSOR_DATA: Final = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"
"""The environment variable in which generated kernels find how to reach a tensor's memory."""


def tensor_data_pointer() -> int:
    """The address of torch's function that tells where a tensor's memory is."""
    with needed("kernels that Inductor has generated, loaded without it"):
        found: int = import_module(
            "torch._C._dynamo.guards"
        )._torchinductor_pyobject_tensor_data_ptr
        return found
