"""From a decoded code object to what the loop runs.

Stage: between `bytecode` and the loop. In: a code object. Out: `Prepared`, kept with the code
object by the native core. `instructions[unit]` is `(handler, operand, unit of the next
instruction)`; units in the middle of an instruction hold None.
"""

from types import CodeType
from typing import Any, TypeAlias

from stator.bytecode import Decoded, decode
from stator.evaluator import opcodes
from stator.evaluator.errors import InternalError
from stator.evaluator.registry import SELECTORS, Handler

Step: TypeAlias = tuple[Handler, Any, int]


class Prepared:
    """A code object as the loop runs it."""

    __slots__ = ("decoded", "instructions")

    def __init__(self, decoded: Decoded) -> None:
        self.decoded = decoded
        steps: list[Step | None] = [None] * decoded.units
        for instruction in decoded.instructions:
            handler, operand = SELECTORS[instruction.name](decoded, instruction)
            step = (handler, operand, instruction.next)
            steps[instruction.start] = steps[instruction.unit] = step
        self.instructions: list[Any] = steps


def prepare(code: CodeType) -> Prepared:
    """Called by the native core for a code object that it meets for the first time."""
    try:
        return Prepared(decode(code))
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        raise InternalError.report(f"prepare {where}", error) from error


opcodes.check_complete()
