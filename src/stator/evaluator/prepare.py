"""From a decoded code object to what the loop runs.

Stage: between `bytecode` and the loop. In: a code object. Out: `Prepared`, kept with the code
object by the native core. `instructions[unit]` is `(handler, operand, unit of the next
instruction)`; units in the middle of an instruction hold None.
"""

from types import CodeType
from typing import Any, TypeAlias

from stator.bytecode import Decoded, decode, find_handler
from stator.bytecode import Handler as ExceptionHandler
from stator.evaluator import opcodes
from stator.evaluator.errors import InternalError
from stator.evaluator.registry import SELECTORS, Handler

Step: TypeAlias = tuple[Handler, Any, int]


class Prepared:
    """A code object as the loop runs it.

    It must not refer to the code object, which keeps it: neither is known to the garbage collector.
    """

    __slots__ = ("_handlers", "_lines", "_owners", "instructions")

    instructions: list[Any]

    def __init__(self, decoded: Decoded) -> None:
        steps: list[Step | None] = [None] * decoded.units
        owners: list[int] = []
        for instruction in decoded.instructions:
            handler, operand = SELECTORS[instruction.name](decoded, instruction)
            step = (handler, operand, instruction.next)
            steps[instruction.start] = steps[instruction.unit] = step
            owners += [instruction.unit] * (instruction.next - instruction.start)
        self.instructions = steps
        self._owners = owners
        self._handlers = decoded.handlers
        self._lines: list[int | None] | None = None

    def unit(self, position: int) -> int:
        """The unit of the instruction that covers a unit; of the first one for those before it."""
        return self._owners[max(position, 0)]

    def line(self, code: CodeType, position: int) -> int:
        """The line of a unit; `code` is the code object this was made from."""
        if self._lines is None:
            self._lines = [None] * len(self._owners)  # own: our table
            for start, end, line in code.co_lines():
                self._lines[start // 2 : end // 2] = [line] * (end // 2 - start // 2)
        return self._lines[max(position, 0)] or code.co_firstlineno

    def handler(self, position: int) -> ExceptionHandler | None:
        """The handler for an exception raised at a unit."""
        return find_handler(self._handlers, position)


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
