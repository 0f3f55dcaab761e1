"""AOTAutograd, which is expensive to load."""

from .door import needed

with needed("graphs of forward and backward, for a compiler"):
    from torch._functorch.aot_autograd import aot_module_simplified
with needed("what such a compiler returns"):
    from torch._functorch._aot_autograd.utils import make_boxed_func
