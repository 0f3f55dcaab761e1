"""Which reason of the catalogue it is that something can't be captured.

Stage: capture. In: what a contract or a mark says, or an object that can't be looked into. Out: the
class of the `Break`, or the `Break`.
"""

import io
from typing import Any, Final

from stator import objects
from stator.capture.calls.marks import Kind
from stator.contracts import Reason
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import (
    ArrayFunction,
    Clock,
    FunctionDisabled,
    GraphBreakAsked,
    HiddenState,
    Import,
    InputOutput,
    InterpreterState,
    IteratorInUse,
    LockHeld,
    OpaqueObject,
    Output,
    RandomState,
    SkipAsked,
    TextOfTensor,
    Threads,
    WarningControl,
)
from stator.effects.texts import Text, given_parts
from stator.world import World

# C code that may not run while tracing.
FORBIDDEN: Final[dict[Reason, type[Break]]] = {
    Reason.OUTPUT: Output,
    Reason.IO: InputOutput,
    Reason.TIME: Clock,
    Reason.RANDOM: RandomState,
    Reason.THREADS: Threads,
    Reason.LOCK: LockHeld,
    Reason.COLLECTOR: InterpreterState,
    Reason.OS: InputOutput,
    Reason.PROCESS: InterpreterState,
    Reason.MEMORY: InterpreterState,
    Reason.HIDDEN_STATE: HiddenState,
    Reason.WARNINGS: WarningControl,
    Reason.IMPORT: Import,
    Reason.DEBUG: InterpreterState,
    Reason.EXIT: InterpreterState,
    Reason.CODEC: HiddenState,
}
# What the user has said not to capture.
MARKED: Final[dict[Kind, type[Break]]] = {
    Kind.BREAK: GraphBreakAsked,
    Kind.SKIP: SkipAsked,
    Kind.DISABLE: FunctionDisabled,
}
_STREAM: Final = io.StringIO.__mro__[-2]  # the C base of all of them


def unseen(world: World, value: Any, what: str) -> Break:
    """Something is done with an object that can't be looked into: `what`, {} being the object."""
    cls = type(value)
    named = world.opaque.get(id(value), cls.__qualname__)
    kind: type[Break] = OpaqueObject
    if cls is Text:
        kind = TextOfTensor
        world.looked.update(given_parts(value))
    elif named.startswith("numpy."):
        kind = ArrayFunction
    elif objects.lookup(cls, "__next__") and not objects.is_subtype(cls, _STREAM):
        kind = IteratorInUse
    reason = what.replace("{}", f"an object of type {named}", 1)  # a name in it may be anything
    return kind(reason).about(world.origins.get(id(value)))
