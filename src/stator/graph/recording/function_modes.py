"""torch's function modes, while torch's own code runs on fake tensors.

In: code of torch, in the middle of a trace. Out: it runs as outside of one.
"""

import contextlib
from collections.abc import Iterator

from stator.torchlib.modes import len_function_stack, pop_function_mode, push_function_mode
from stator.torchlib.tensors import EnableTorchFunction


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """There are no function modes, but those that torch's own code enters meanwhile are asked."""
    modes = []
    with EnableTorchFunction():
        while len_function_stack():
            modes.append(pop_function_mode())
        try:
            yield
        finally:
            for mode in reversed(modes):
                push_function_mode(mode)
