"""What is known of an operation by its target alone, found out once.

In: the target of a node: a function of torch, a method of tensors, an operator of Python. Out: an
`Operation`, the one record of it that the recorder, and what looks at recorded nodes, ask.

What depends on the arguments of a call is not here: it is noted on the node when it is recorded.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch

from stator.graph.fakes.layouts import REWRITTEN
from stator.graph.fakes.packed import PACKED
from stator.graph.fakes.recurrent import RECURRENT
from stator.graph.fakes.resizing import RESIZED_AS, RESIZING
from stator.graph.leaves.uncounted_lists import may_change_lists
from stator.graph.passes.purity import UNCOUNTED, has_effect, is_torch_function
from stator.torchlib.operators import HigherOrderOperator, OpOverload, OpOverloadPacket

Target: TypeAlias = Callable[..., Any] | tuple[str, str]  # a function, or ("method", name)


class Operation:
    """One operation. Operations are compared by identity, and those of torch live for ever."""

    __slots__ = (
        "attends",
        "copies",
        "effect",
        "is_method",
        "is_overload",
        "lists",
        "name",
        "nested",
        "packed",
        "recurrent",
        "resized_as",
        "resizes",
        "shown",
        "target",
        "torchs",
        "uncounted",
    )

    def __init__(self, target: Target) -> None:
        self.target = target
        self.is_method = isinstance(target, tuple)
        self.is_overload = isinstance(target, OpOverload | OpOverloadPacket)
        self.name = bare_name(target)
        self.shown = operator_name(target)  # what a user calls it
        name = self.name
        self.torchs = self.is_method or is_torch_function(target)
        self.effect = has_effect(name)  # it is called for what it does
        self.uncounted = name in UNCOUNTED  # it changes statistics, uncounted
        self.lists = may_change_lists(name)  # of tensors that it changes
        self.resizes: Callable[[Sequence[Any], Mapping[str, Any]], bool] | None = RESIZING.get(name)
        self.copies = name in REWRITTEN  # it works on a copy, if its tensor lies otherwise
        self.resized_as = name in RESIZED_AS
        self.recurrent = name in RECURRENT
        self.attends = name.partition(".")[0] in _ATTENDING
        self.packed = name in PACKED
        self.nested = isinstance(target, torch.nn.Module | HigherOrderOperator)  # of graphs

    def __repr__(self) -> str:
        return f"<operation {self.shown}>"

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carries it out."""
        return run_target(self.target, args, kwargs)


# What computes attention by one of several kernels.
_ATTENDING: Final = frozenset(
    {
        "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
        "multi_head_attention_forward",
        "scaled_dot_product_attention",
    }
)
_KNOWN: Final[dict[int, Operation]] = {}  # by id of a function of torch, which it holds
_METHODS: Final[dict[str, Operation]] = {}
_MOST_METHODS: Final = 5000


def operation_of(target: Target) -> Operation:
    """The record of a target."""
    if type(target) is tuple:
        found = _METHODS.get(target[1])
        if found is None:
            found = Operation(target)
            if len(_METHODS) < _MOST_METHODS:
                _METHODS[target[1]] = found
        return found
    found = _KNOWN.get(id(target))
    if found is None:
        found = Operation(target)
        if found.torchs and _lives(target):
            _KNOWN[id(target)] = found
    return found


def _lives(target: Any) -> bool:
    """Whether a function of torch lives as long as torch does: not if it was made in a call, and
    not an operator that a library of the program's defines.
    """
    kind = type(target)
    if kind is types.BuiltinFunctionType:
        return isinstance(target.__self__, type | types.ModuleType | None)
    return kind is types.FunctionType and "<locals>" not in target.__qualname__


def operator_name(target: Target) -> str:
    """What a user calls the operation."""
    if isinstance(target, tuple):
        return f"Tensor.{target[1]}"
    if isinstance(target, OpOverload | OpOverloadPacket):
        return str(target)
    return getattr(target, "__name__", None) or repr(target)


def bare_name(target: Target) -> str:
    """The name of the function or the method."""
    return target[1] if isinstance(target, tuple) else getattr(target, "__name__", "")


def run_target(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a node of this target does."""
    if isinstance(target, tuple):
        return getattr(args[0], target[1])(*args[1:], **kwargs)
    return target(*args, **kwargs)
