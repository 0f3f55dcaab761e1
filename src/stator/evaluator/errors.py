"""Errors of the evaluator itself, as opposed to those of the programs it runs."""

from stator._native._core import Frame
from stator.bytecode import decode


class Abort(BaseException):
    """Ends an evaluation from outside: no handler of the evaluated program sees it.

    For tracers, which raise subclasses of it. C code may swallow it all the same, so whoever
    raises one keeps note of it.
    """

    def at(self, frame: Frame) -> object:
        """Called with each frame it passes through, the innermost first."""


class InternalError(Exception):
    """A bug in stator: please report it with the text below.

    It passes through the handlers of the evaluated program, which is not at fault.
    """

    @classmethod
    def report(cls, task: str, cause: BaseException) -> "InternalError":
        """The error for an exception of the evaluator's own code, raised while it did `task`."""
        error = cls(f"stator failed to {task}: {cause!r}. This is a bug; please report it.")
        error.__cause__ = cause
        return error

    @classmethod
    def at(cls, frame: Frame, cause: BaseException) -> "InternalError":
        """The error for an exception raised in an instruction."""
        code = frame.code
        decoded = decode(code)
        instruction = decoded.at(frame.info.unit(frame.ip - 1))
        return cls.report(
            f"evaluate {instruction.name} {instruction.arg} (unit {instruction.unit}) of "
            f"{code.co_qualname} ({code.co_filename}:{decoded.line_of(instruction.unit)})",
            cause,
        )
