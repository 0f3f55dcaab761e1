"""Functions of torch, and methods of its tensors, that the program has put others in the place of.

Stage: capture, for `Tensors`. In: what is recorded, or done to a tensor. Out: guards that torch's
own functions are where they belong, or a `Break` where they are not.

A graph calls functions and methods by their names, as torch.fx prints them: if `torch.relu` is
another function, then so is the node of the one that was recorded. And what a program does to a
tensor by an operator or a C function (`x + 1`, `len(x)`) is looked up in the class of tensors, so
that each such name is guarded once.
"""

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator.diagnostics.catalogue import NoGraphOperation
from stator.guards import ClassAttr, Fixed, Guard, Is, Key
from stator.torchlib.operators import OpOverload, OpOverloadPacket
from stator.torchlib.tracers import qualified_name
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_OPERATORS: Final = frozenset({"operator", "_operator"})
_FUNCTIONS: Final[dict[str, Any]] = dict(torch.__dict__)
_METHODS: Final[dict[str, Any]] = {
    name: found.value
    for name in dir(torch.Tensor)
    if (found := objects.lookup(torch.Tensor, name)) is not None
}


# A trace itself asks for these.
_ESSENTIAL: Final = tuple(
    (place.__dict__, name, place.__dict__[name])
    for place, names in (
        (torch, "Tensor get_default_dtype is_grad_enabled is_inference_mode_enabled"),
        (torch.nn, "Module Parameter"),
    )
    for name in names.split()
)
_DESCRIPTORS: Final = (types.GetSetDescriptorType, property)
_FIELDS: Final = frozenset(name for name in _METHODS if type(_METHODS[name]) in _DESCRIPTORS)
_TENSOR: Final = torch.Tensor
_TEXTS: Final = ("__repr__", "__format__", "__str__")


def replaced() -> Guard | None:
    """The first thing without which nothing can be traced and that is not torch's own any more;
    guarded as it is.
    """
    for names, name, value in _ESSENTIAL:
        if names.get(name) is not value:
            return Guard(Key(Fixed(names, "torch"), name), Is(names.get(name)))
    for name, value in objects.type_dict(_TENSOR).items():
        if name in _FIELDS and value is not _METHODS[name]:
            return Guard(ClassAttr(Fixed(_TENSOR), name), Is(value))
    return None


class Replaced:
    """What one trace knows of it."""

    def __init__(self, tensors: "Tensors") -> None:
        self._world = tensors.world
        self._seen: set[Any] = {getattr}  # targets, names of methods
        self._kept: list[Any] = []

    def check(self, target: Any) -> None:
        """A call is about to be recorded."""
        if target in self._seen:
            return
        if type(target) is tuple:
            self.method(target[1])
        elif type(target) is types.BuiltinFunctionType and target.__module__ in _OPERATORS:
            for name in _special_names(target.__name__):
                self.method(name)
        elif not isinstance(target, OpOverload | OpOverloadPacket):
            self._function(target)
        self._seen.add(target)
        self._kept.append(target)

    def method(self, name: str) -> None:
        """Something is done to a tensor that its class has a method or a field for."""
        if name in self._seen:
            return
        self._seen.add(name)
        known = _METHODS.get(name)
        found = self._world.class_attribute(torch.Tensor, name)
        if known is not None and found is not None and not _is_torchs(found.value, known):
            raise NoGraphOperation(
                f"Tensor.{name} was replaced: a graph calls methods of tensors by their names"
            )

    def shown(self) -> None:
        """A text is made of a tensor, in torch's own way."""
        for name in _TEXTS:
            self.method(name)

    def may_be_shown(self) -> None:
        """C code makes texts, and evaluates what is there for a tensor."""
        for name in _TEXTS:
            self._world.class_attribute(torch.Tensor, name)

    def _function(self, function: Any) -> None:
        for names, name, value in _places(function):
            found = self._world.lookup(self._world.namespace(names), name)
            if found is not MISSING and found is not value and not _is_torchs(found, value):
                raise NoGraphOperation(
                    f"torch's function {name} was replaced: a graph calls functions by their names"
                )
        if type(function) is types.FunctionType:
            for name in function.__code__.co_names:
                if name in _METHODS:
                    self.method(name)


def _special_names(name: str) -> Iterator[str]:
    """The methods by which an operator of Python's may be carried out."""
    plain = name.strip("_")
    for each in (f"__{plain}__", f"__r{plain}__", f"__{plain[1:]}__"):
        if each in _METHODS:
            yield each


def _places(function: Any) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Where a recorded function is looked up, and what its own code looks up in torch."""
    try:
        module, _, name = qualified_name(function).rpartition(".")
    except (AttributeError, RuntimeError, TypeError):
        module = ""
    found: Any = torch
    for part in module.split(".")[1:]:
        found = getattr(found, part, None)
    if type(found) is types.ModuleType and module.startswith("torch"):
        yield found.__dict__, name, function
    if type(function) is types.FunctionType:
        for each in function.__code__.co_names:
            known = _FUNCTIONS.get(each)
            if callable(known):
                yield torch.__dict__, each, known


def _is_torchs(value: Any, known: Any) -> bool:
    """Whether something is what it was when we were loaded, or torch's own in its place."""
    if value is known:
        return True
    return type(value) is types.FunctionType and str(
        dict.get(value.__globals__, "__name__")
    ).startswith("torch.")
