"""AOTAutograd, and what a backend finds around it."""

from .door import needed

with needed("graphs of forward and backward, for a compiler"):
    from torch._functorch.aot_autograd import aot_module_simplified
with needed("what such a compiler returns"):
    from torch._functorch._aot_autograd.utils import make_boxed_func
with needed("its settings"):
    from torch._functorch import config as functorch_config
with needed("where a backend looks for the fake mode"):
    from torch._guards import TracingContext
with needed("the scope of it"):
    from torch._guards import tracing
