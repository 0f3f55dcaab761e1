"""What a backend finds around it: the fake mode of a trace, and settings."""

from .door import needed

with needed("the settings of AOTAutograd"):
    from torch._functorch import config as functorch_config
with needed("where a backend looks for the fake mode"):
    from torch._guards import TracingContext
with needed("the scope of it"):
    from torch._guards import tracing
