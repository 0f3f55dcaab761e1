"""Addresses of objects that the program makes: `id(x)`, `hash(x)`.

Stage: capture. In: an object whose address the program has got. Out: a `Break` where it was told,
if the object outlives the trace: then it is made again, at another address, and nobody can find the
number in what the program has computed from it. An object that dies with the trace has no address
that could be compared.
"""

import copy
import dataclasses
import reprlib
from typing import TYPE_CHECKING, Any, Final

import torch

from stator.diagnostics.catalogue import InterpreterState
from stator.torchlib.tracers import tensor_module
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# Globals of functions for which an address is a key of the memo of a deep copy (see `copies`).
COPYING: Final = frozenset(
    id(vars(module)) for module in (copy, tensor_module, torch.nn.parameter) if module
)
# Here nobody keeps an address: `repr` knows by it that an object is inside of itself.
FOR_THE_MOMENT: Final = COPYING | {id(module.__dict__) for module in (dataclasses, reprlib)}


def tell(calls: "Calls", value: Any) -> None:
    """The program is told where an object is."""
    if id(value) not in calls.world.origins and not CONSTANTS.holds(type(value)):
        calls.told.setdefault(id(value), (value, calls.tracer.steps - 1))


def check_told(calls: "Calls", value: Any) -> None:
    """An object is made again."""
    told = calls.told.get(id(value))
    if told is not None:
        calls.tracer.before = told[1]
        raise InterpreterState("the address of a new object is asked for, and the object is kept")
