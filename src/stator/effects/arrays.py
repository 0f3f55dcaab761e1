"""The recipe of a numpy array that was made while tracing: each call gets a copy.

Stage: effects. numpy may not be installed: the type is found by name. What arrays share memory with
is the tracer's business.
"""

from __future__ import annotations

from typing import Any

from stator.effects.model import CannotRebuild, Constant
from stator.effects.node import Node
from stator.effects.steps import Call


def array_node(value: Any) -> Node:
    """A copy in the same memory order; the array itself is what is copied, nobody else has it."""
    kept = value.copy("K")
    if kept.strides != value.strides or not value.flags.writeable or value.dtype.hasobject:
        raise CannotRebuild("a numpy array made while tracing that a copy is not like")
    return Node(value, Call(type(value).copy, (Constant(kept), Constant("K")), "copy_array"))
