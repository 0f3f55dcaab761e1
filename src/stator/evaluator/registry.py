"""The table of opcode handlers.

Stage: between decoding and the loop. A handler is `handler(frame, operand)`; it returns None to go
on with the next instruction, a `Frame` to switch to, or one of the signals below. What the operand
is (a constant, a name, a jump target …) is fixed when a code object is prepared, so that handlers
do no decoding. Handlers register under the opcode's name; names that the running Python does not
have are simply not used.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from stator._native._core import Frame
from stator.bytecode import Decoded, Instruction


class Signal(Enum):
    """What a handler can tell the loop besides "go on" and "switch to this frame"."""

    EXIT = "the base frame ended or suspended; its result is in frame.result"
    RERAISE = "frame.result is (exception, unit that raised it): go on raising it"


EXIT: Final = Signal.EXIT
RERAISE: Final = Signal.RERAISE

Handler: TypeAlias = Callable[[Frame, Any], Frame | Signal | None]
Selector: TypeAlias = Callable[[Decoded, Instruction], tuple[Handler, Any]]
Operand: TypeAlias = Callable[[Decoded, Instruction], Any]

SELECTORS: Final[dict[str, Selector]] = {}
"""By opcode name: which handler with which operand an instruction becomes."""


def raw(decoded: Decoded, instruction: Instruction) -> int:
    """The argument as it stands."""
    return instruction.arg


def target(decoded: Decoded, instruction: Instruction) -> int:
    """The unit a jump goes to."""
    assert instruction.target is not None
    return instruction.target


def opcode(*names: str, operand: Operand = raw) -> Callable[[Handler], Handler]:
    """Register a handler for opcodes; `operand` says what it is given."""

    def register(handler: Handler) -> Handler:
        for name in names:
            SELECTORS[name] = lambda decoded, instruction: (handler, operand(decoded, instruction))
        return handler

    return register


def select(*names: str) -> Callable[[Selector], Selector]:
    """Register a function that chooses the handler by the instruction's argument."""

    def register(selector: Selector) -> Selector:
        for name in names:
            SELECTORS[name] = selector
        return selector

    return register
