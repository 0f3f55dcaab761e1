"""Why functions are compiled again: the kinds of causes, and what to do about each.

Stage: diagnostics. In: nothing. Out: `Cause`, which the driver finds for a guard that fails, and a
remedy in one sentence.
"""

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """What differs between a call and those that were compiled for."""

    SIZES = "sizes"
    """Sizes or strides of a tensor, and nothing else of it."""
    CONDITION = "condition"
    """Sizes are left open, and the program asks something about them."""
    TENSOR = "tensor"
    """Another kind of tensor: dtype, device, number of dimensions, requires_grad, class."""
    NUMBER = "number"
    """An int or a float."""
    MODE = "mode"
    """`training` of a module."""
    VALUE = "value"
    """Another constant: a bool, a string, None, a tuple."""
    IDENTITY = "identity"
    """Another object in the same place: a function, a module, an instance."""
    ALIASES = "aliases"
    """Which arguments are the same object, or share memory."""
    CONTENTS = "contents"
    """How long a container is, which keys it has, which attributes an object has."""
    TYPE = "type"
    """The class of an object."""
    STATE = "state"
    """Grad mode, autocast, default dtype and the like."""
    OTHER = "other"
    """What no remedy is known for."""


REMEDIES: Final[dict[Cause, str]] = {
    Cause.SIZES: (
        "leave the sizes open: dynamic=True, or stator.mark_dynamic on the tensor; 0 and 1 are "
        "sizes of their own in any case"
    ),
    Cause.CONDITION: (
        "each answer is a graph of its own: write the program so that it need not ask about the "
        "size or number, or keep it on one side"
    ),
    Cause.TENSOR: (
        "convert tensors before the call, so that dtype, device and number of dimensions are "
        "always the same"
    ),
    Cause.NUMBER: (
        "pass the number as a tensor, or leave it open: an int argument by dynamic=True, others "
        "after one recompile, unless dynamic=False"
    ),
    Cause.MODE: "two variants, train() and eval(), are normal; further ones have another cause",
    Cause.VALUE: (
        "each value is a graph of its own: keep it out of the function, or compile a function "
        "per value, each with isolate_recompiles=True"
    ),
    Cause.IDENTITY: (
        "make the object once and pass the same one; if each wrapper has its own, compile with "
        "isolate_recompiles=True"
    ),
    Cause.ALIASES: "pass tensors that share no memory, or always the same ones twice",
    Cause.CONTENTS: "keep containers and attributes as they are between calls, or pass a tensor",
    Cause.TYPE: "pass objects of one class, or compile a function per class",
    Cause.STATE: (
        "call it in the same grad mode, autocast and defaults, or expect a variant for each"
    ),
    Cause.OTHER: "",
}
