"""What the driver raises."""


class RecompileError(RuntimeError):
    """A function was about to be compiled again, and that is not wanted (`error_on_recompile`)."""


class RecompileLimitError(RecompileError):
    """As many variants of a function as allowed are compiled already, and none fits the call."""
