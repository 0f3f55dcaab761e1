"""Errors of C code that name a type which only a trace has: `'FakeTensor' object is not callable`.

Stage: under the tracer. In: an exception that C code has raised. Out: the same, with the name of
the type that the program's object has. Where that is not clear from the text, a `Break`.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.diagnostics.catalogue import TextOfTensor
from stator.graph.leaves.leaves import python_type
from stator.torchlib.fakes import FakeTensor

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_NAMES: Final = re.compile(r"\b(FakeTensor|SymInt|SymFloat|SymBool|Text)\b")
_FULL_NAME: Final = f"{FakeTensor.__module__}.{FakeTensor.__qualname__}"
"""Since 3.15, some messages have it."""


def renamed(tracer: "Tracer", frame: Frame, error: BaseException) -> BaseException:
    """The error as the program's own objects would have caused it."""
    if type(error) is not TypeError or len(error.args) != 1 or type(error.args[0]) is not str:
        return error
    text = error.args[0]
    found = set(_NAMES.findall(text))
    if not found:
        return error
    kinds = {
        python_type(value)
        for node in tracer.tensors.graph.graph.nodes
        if type(value := node.meta.get("example_value")) is FakeTensor
    }
    # What is said of numbers differs in other words, too.
    if found != {"FakeTensor"} or len(kinds) != 1:
        return tracer.stop(frame, TextOfTensor("an error says what the type of a tensor is"))
    kind = kinds.pop()
    text = text.replace(_FULL_NAME, f"{kind.__module__}.{kind.__qualname__}")
    error.args = (_NAMES.sub(kind.__name__, text),)
    return error


def of_operands(error: BaseException, operands: Sequence[Any]) -> BaseException:
    """An operator's error, as eager raised it for plain tensors: Python names both classes."""
    if type(error) is TypeError and len(error.args) == 1 and len(operands) == 2:
        text, stood = error.args[0], _both(_plain, operands)
        if type(text) is str and text.endswith(stood):
            error.args = (text.removesuffix(stood) + _both(python_type, operands),)
    return error


def _both(kind: Callable[[Any], type], operands: Sequence[Any]) -> str:
    """How Python names the classes of two operands, with this one for traced tensors."""
    first, second = (
        (kind(value) if type(value) is FakeTensor else type(value)).__name__ for value in operands
    )
    return f"'{first}' and '{second}'"


def _plain(_: object) -> type:
    return torch.Tensor
