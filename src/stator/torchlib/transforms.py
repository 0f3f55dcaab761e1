"""`torch.func`, and trees of arguments."""

from .door import needed

with needed("tensors of a transform, and what is under them"):
    from torch._C import _functorch as functorch
with needed("whether the program is inside of a transform"):
    from torch._C._functorch import peek_interpreter_stack
with needed("tensors of a transform"):
    from torch._C._functorch import is_functorch_wrapped_tensor
with needed("the same, for `autograd.Function`"):
    from torch._C import _are_functorch_transforms_active as are_transforms_active
with needed("what `grad`, `vjp`, `jvp` call inside"):
    from torch._functorch import eager_transforms
with needed("what `vmap` calls inside"):
    from torch._functorch import vmap
with needed("the tensors in nested arguments, and how they are nested"):
    from torch.utils import _pytree as pytree
