"""The classes below `torch.Tensor`, and running without their `__torch_function__`."""

from .door import needed

with needed("the methods of tensors as they are in C, under what a program may have patched"):
    from torch._C import TensorBase
with needed("our own operators, hidden from the classes and modes of the program"):
    from torch._C import DisableTorchFunction
with needed("what a program means by it, and what its methods run under"):
    from torch._C import DisableTorchFunctionSubclass
with needed("the program itself, called from where the above is in force"):
    from torch._C import _EnableTorchFunction as EnableTorchFunction
with needed("whether the program has switched it off"):
    from torch._C import _is_torch_function_enabled as is_torch_function_enabled
with needed("recognises a class that has switched it off for itself"):
    from torch._C import _disabled_torch_function_impl as disabled_torch_function
with needed("recognises a class whose operators are those of a plain tensor"):
    from torch._C import _disabled_torch_dispatch_impl as disabled_torch_dispatch
with needed("a module with other tensors, as a whole call gets them"):
    from torch.nn.utils.stateless import _reparametrize_module as reparametrize_module
