"""Inputs for which something is compiled ahead of time: `(args, kwargs)`, as torch has it.

Stage: driver. In: what the program gives. Out: the same, checked, maybe with arguments in front.
"""

from typing import Any

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def checked(inputs: Any, *first: Any) -> Inputs:
    """The arguments of a call, with those first that a method is bound to."""
    if isinstance(inputs, tuple | list) and len(inputs) == 2:
        args, kwargs = inputs
        if isinstance(args, tuple | list) and isinstance(kwargs, dict):
            return (*first, *args), kwargs
    raise TypeError("aot_compile() needs the arguments of a call: (args, kwargs)")
