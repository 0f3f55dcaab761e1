"""Numbers that C code demands of the program's special methods.

Stage: capture, for the tracer. In: the frame of a Python function that C code has called, and its
result, a symbolic number. Out: the number that it is in this call, if C code takes nothing else.

C code that calls `__index__` or `__float__` refuses what is no exact number, with an exception that
the program would see. Other results are passed on as they are: what is done to them is asked later.
"""

import inspect
import types
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.operators import specials
from stator.capture.numbers.scalars import python_type
from stator.diagnostics.catalogue import ValueNeeded

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

DEMANDED: Final = frozenset(specials("index int float complex hash bool len length_hint"))
_GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def method(frame: Frame) -> tuple[Any, Any]:
    """A frame that begins: its function and the object that it may be a method of."""
    code = frame.code
    bound = code.co_argcount > 0 and not code.co_flags & _GENERATORS
    return frame.function, frame[0] if bound else None


def demanded(tensors: "Tensors", frame: Frame, function: types.FunctionType, receiver: Any) -> Any:
    """The result of a finished frame that C code has started, for that C code."""
    value = frame.result
    if not _is_demanded(function, type(receiver)):
        return value
    if type(value) is torch.SymBool:
        return tensors.scalars.truth(None, value)
    known = tensors.shapes.plain(None, value)
    if type(known) is torch.SymInt:
        known = tensors.scalars.speculation.number(None, known)
    if known is None or type(known) is torch.SymFloat:
        what = python_type(value).__qualname__
        raise ValueNeeded(f"C code needs the value of an {what} that is read from a tensor")
    return known


def _is_demanded(function: types.FunctionType, cls: type) -> bool:
    if function.__code__.co_name in DEMANDED:
        return True
    found = (objects.lookup(cls, name) for name in DEMANDED)
    return any(each is not None and each.value is function for each in found)
