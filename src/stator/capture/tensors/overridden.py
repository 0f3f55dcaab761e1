"""Calls that are about `__torch_function__` itself, or that make tensors of a subclass.

In: a call of one of these functions. Out: what `overrides` and `subclasses` make of it.
"""

import functools
import types
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.bytecode import decode
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import by_contract
from stator.capture.tensors.overrides import DEFAULT, Without
from stator.capture.tensors.subclasses import Behind
from stator.contracts import Depth
from stator.diagnostics.catalogue import TensorSubclass
from stator.graph.leaves import leaves
from stator.torchlib.tensors import TensorBase
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_BASE: Final = TensorBase


def _default(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`super().__torch_function__(…)`."""
    names = ("cls", "func", "types", "args", "kwargs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(given) != len(args) + len(kwargs) or not {*names[:3]} <= given.keys() <= {*names}:
        raise TensorSubclass("torch.Tensor.__torch_function__ is called with other arguments")
    values = [given.get("args", ()), given.get("kwargs")]
    return calls.tensors.overrides.default(frame, *(given[name] for name in names[:3]), *values)


def _handle(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`handle_torch_function(f, tensors, *args, **kwargs)`."""
    calls.values.ready((args, kwargs), Depth.DEEP)
    with_keywords = functools.partial(function, **kwargs) if kwargs else function
    found = calls.tensors.overrides.operation(frame, with_keywords, *args)
    if found is MISSING:
        raise TensorSubclass("handle_torch_function of tensors of which none is asked")
    return found


def _enter(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.tensors.overrides.enter()


def _leave(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.tensors.overrides.leave()


def _field(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`Tensor.shape.__get__(x)`, which `__torch_function__` gets as a function."""
    of_tensor = len(args) > 1 and calls.tensors.holds(type(args[1]))
    if not kwargs and of_tensor and args[0].__objclass__ is _BASE:
        return calls.tensors.attributes.field(frame, args[0].__name__, function.__name__, args[1:])
    return by_contract(calls, frame, function, args, kwargs)


def _new(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`super().__new__(S, …)`."""
    cls: Any = args[0] if args else None
    if not objects.is_subtype(type(cls), type) or not objects.is_subtype(cls, torch.Tensor):
        raise TensorSubclass("torch.Tensor.__new__ of something that is no class of tensors")
    return calls.tensors.subclasses.new(frame, cls, args[1:], kwargs)


def behind(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`super()`: CPython's own would not take a fake for an instance of the class."""
    instance: Any = args[1] if len(args) == 2 else None
    if not args and not kwargs and frame.code.co_argcount:
        instance = frame[0]
        if type(instance) is types.CellType:
            instance = calls.tracer.load_cell(frame, instance)
    if calls.tensors.holds(type(instance)):
        cls = args[0] if args else _cell(calls, frame, "__class__")
        kind = leaves.python_type(instance)
        if objects.is_subtype(type(cls), type) and objects.is_subtype(kind, cls):
            return Behind(cls, instance)
    return by_contract(calls, frame, function, args, kwargs)


def _cell(calls: "Calls", frame: Frame, name: str) -> Any:
    names = decode(frame.code).localsplus
    if name not in names:
        return None
    return calls.tracer.load_cell(frame, frame[names.index(name)])


OVERRIDDEN: Final[dict[int, Handler]] = {
    id(super): behind,
    id(DEFAULT): _default,
    id(torch.overrides.handle_torch_function): _handle,
    id(Without.__enter__): _enter,
    id(Without.__exit__): _leave,
    id(objects.type_dict(_BASE)["__new__"]): _new,
    **{
        id(objects.type_dict(types.GetSetDescriptorType)[name]): _field
        for name in ("__get__", "__set__", "__delete__")
    },
}
