"""Calls as a plan: what a callable ends up calling, with what in front of the arguments."""

from enum import Enum, auto
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple

from stator.objects import types


class CallKind(Enum):
    """What is called in the end."""

    FUNCTION = auto()
    """A Python function: `target`, after the arguments in `prefix`."""
    NATIVE = auto()
    """A C function or method: `target`, after `prefix` (a bound method's self)."""
    CLASS = auto()
    """A class without a `__call__` of its metaclass: `__new__`, then `__init__`."""
    UNKNOWN = auto()
    """Not callable, or a callable instance of a C type without a known shape."""


class CallPlan(NamedTuple):
    """What `callable(*args)` calls: `target(*prefix, *args)`."""

    kind: CallKind
    target: Any
    prefix: tuple[Any, ...] = ()


_NATIVE: Final = types.TypeSet(
    BuiltinFunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
    MethodWrapperType,
    ClassMethodDescriptorType,
)
_TYPE_CALL: Final = type.__dict__["__call__"]


def plan_call(callable: Any) -> CallPlan:
    """Unwraps bound methods and `__call__` methods of instances, as `tp_call` does."""
    prefix: tuple[Any, ...] = ()
    while True:
        cls = type(callable)
        if cls is FunctionType:
            return CallPlan(CallKind.FUNCTION, callable, prefix)
        if cls is MethodType:
            prefix = (callable.__self__, *prefix)
            callable = callable.__func__
            continue
        if _NATIVE.holds(cls):
            return CallPlan(CallKind.NATIVE, callable, prefix)
        method = types.lookup(cls, "__call__")
        if method is None:
            return CallPlan(CallKind.UNKNOWN, callable, prefix)
        if method.value is _TYPE_CALL:
            return CallPlan(CallKind.CLASS, callable, prefix)
        if type(method.value) is not FunctionType:
            return CallPlan(CallKind.UNKNOWN, callable, prefix)
        prefix = (callable, *prefix)
        callable = method.value
