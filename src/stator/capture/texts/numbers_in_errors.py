"""Numbers in the texts of torch's errors.

Stage: capture. In: an error that torch has raised, and the arguments. Out: guards. A program that
handles the error may look at its text, which tells sizes and strides: those that are left open have
to be what they are in this call.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import user_call
from stator.capture.tensors.refused_values import handlers
from stator.graph.fakes.inputs import tensors_in
from stator.objects import TypeSet
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_SEQUENCES: Final = TypeSet(list, tuple, torch.Size)
_NUMBERS: Final = re.compile(r"\d")  # also those in the names of symbols


def settle_handled(
    tensors: "Tensors", frame: Frame | None, error: BaseException, given: Any
) -> None:
    """Fixes them if the program may handle the error."""
    if tensors.graph.symbols and (frame is None or handlers(frame)):
        settle_told(tensors, frame, error, given)


def settle_told(tensors: "Tensors", frame: Frame | None, error: BaseException, given: Any) -> None:
    """Fixes the numbers in arguments that the error may tell of."""
    if tensors.graph.symbols and _NUMBERS.search(str(error)) is not None:
        for number in _open(given):
            if type(number) is torch.SymFloat or number.node.has_hint():
                tensors.shapes.number(frame, number)


def answer_of(
    tensors: "Tensors", frame: Frame | None, function: Callable[..., Any], *args: Any
) -> Any:
    """What torch answers, or its error as the program's, with numbers in its text."""
    try:
        with DisableTorchFunction():
            return function(*args)
    except Exception as error:
        failure = error
    settle_told(tensors, frame, failure, args)
    return user_call(function, *args)


def _open(values: object) -> Iterator[Any]:
    with DisableTorchFunction():
        for tensor in tensors_in(values):
            if tensor.layout is torch.strided:
                yield from _symbols((tuple(tensor.shape), tensor.stride()))
                yield from _symbols(tensor.storage_offset())
    yield from _symbols(values)


def _symbols(values: Any) -> Iterator[Any]:
    kind = type(values)
    if kind is torch.SymInt or kind is torch.SymFloat:
        yield values
    elif _SEQUENCES.holds(kind):
        for each in values:
            yield from _symbols(each)
    elif kind is dict:
        yield from _symbols(list(values.values()))
    elif kind is slice:
        yield from _symbols((values.start, values.stop, values.step))
