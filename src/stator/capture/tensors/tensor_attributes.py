"""Attributes of tensors, as the program reads and writes them.

Stage: capture, for `Tensors`. In: a tensor and a name. Out: a constant, a node of the graph, a
bound method, or what the program has set on the tensor itself.
"""

import types
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.inside_transforms import APART
from stator.diagnostics.catalogue import (
    TensorDetail,
)
from stator.graph.leaves import leaves
from stator.guards import Attr, Callback, NoAttr
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors


# Fields of autograd that the guard on a tensor leaves out.
_UNTOLD: Final = frozenset({"output_nr", "retains_grad"})


def _read(tensor: torch.Tensor, name: str) -> Any:
    with DisableTorchFunction():
        return getattr(tensor, name)


class TensorAttributes:
    """Those of the tensors of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors

    def getattr(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        subclasses = self._tensors.subclasses
        if subclasses.holds(obj):
            found = subclasses.getattr(frame, obj, name)
            if found is not MISSING:
                return found
        return self._plain_getattr(frame, obj, name)

    def own_field(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        """An attribute that all tensors have, whatever the tensor's class has in its place."""
        found = self._tensors.subclasses.field(frame, obj, name)
        return self._plain_getattr(frame, obj, name) if found is MISSING else found

    def _plain_getattr(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        rule = leaves.attribute(name)
        if rule is not None:
            self._tensors.replaced.method(name)
            return self.attribute(frame, obj, name)
        kept = self._tensors.own.attribute(obj, name)
        if kept is not MISSING:
            return kept
        kind = leaves.python_type(obj)
        found = self._tensors.world.class_attribute(kind, name)
        if found is None:
            found = self.own_attribute(obj, name)
            if found is MISSING:
                text = f"'{leaves.python_type(obj).__name__}' object has no attribute '{name}'"
                core.raise_user(AttributeError(text, name=name, obj=obj))
            return found
        value = found.value
        if type(value) is types.FunctionType:
            self._tensors.world.know(value)
            return types.MethodType(value, obj)
        if type(value) in (types.MethodDescriptorType, types.WrapperDescriptorType):
            return value.__get__(obj, kind)
        if type(value) in (types.GetSetDescriptorType, property):
            raise TensorDetail(f"the attribute {name} of a tensor is read")
        assert frame is not None
        return core.getattr(frame, obj, name)

    def attribute(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        """One for which torch's leaves have a rule."""
        rule = leaves.attribute(name)
        if rule is None:
            raise TensorDetail(f"the attribute {name} of a tensor is read")
        if name in APART and self._tensors.inside and self._tensors.inside.differs(obj):
            return APART[name]
        match rule.kind:
            case leaves.Kind.CONSTANT:
                self._tensors.grads.attribute(name)
                if name in _UNTOLD and id(obj) in self._tensors.inputs:
                    return self._of_input(obj, name)
                return leaves.constant_attribute(obj, name)
            case leaves.Kind.RECORD:
                return self._tensors.record(frame, getattr, (obj, name))
            case leaves.Kind.OWN:
                self._tensors.grads.asked()
                with DisableTorchFunction():
                    return getattr(self._tensors.own, rule.action)(obj)
            case leaves.Kind.FORBIDDEN:
                raise rule.cause(rule.reason)
        raise TensorDetail(f"the attribute {name} of a tensor is read")

    def _of_input(self, obj: torch.Tensor, name: str) -> Any:
        raw, source = self._tensors.inputs[id(obj)]
        value = _read(raw, name)
        check = Callback(lambda tensor: _read(tensor, name) == value, f"{name} is {value}")
        self._tensors.world.guard(source, check)
        return value

    def field(self, frame: Frame | None, name: str, access: str, args: list[Any]) -> Any:
        """`Tensor.shape.__get__(x)` and the like."""
        if access == "__get__":
            return self.own_field(frame, args[0], name)
        if access == "__set__":
            return self.setattr(frame, args[0], name, args[1])
        return self.delattr(frame, args[0], name)

    def own_attribute(self, obj: torch.Tensor, name: str) -> Any:
        """An attribute that a program has set on a tensor before the call; MISSING if none."""
        given = self._tensors.inputs.get(id(obj))
        self._tensors.grads.looked += 1
        if given is not None and not self._tensors.own.deleted(obj, name):
            raw, source = given
            own = objects.instance_dict(raw)
            if own is not None and name in own:
                return self._tensors.world.wrap(own[name], Attr(source, name))
            self._tensors.world.guard(source, NoAttr(name))
        return MISSING

    def setattr(self, frame: Frame | None, obj: torch.Tensor, name: str, value: Any) -> None:
        subclasses = self._tensors.subclasses
        if subclasses.holds(obj) and subclasses.setattr(frame, obj, name, value):
            return
        self._tensors.grads.asked()
        with DisableTorchFunction():
            self._tensors.own.setattr(frame, obj, name, value)

    def delattr(self, frame: Frame | None, obj: torch.Tensor, name: str) -> None:
        with DisableTorchFunction():
            self._tensors.own.delattr(frame, obj, name)
