"""Errors of the evaluator itself, as opposed to those of the programs it runs."""

from stator._native._core import Frame


class InternalError(Exception):
    """A bug in stator: please report it with the text below.

    It passes through the handlers of the evaluated program, which is not at fault.
    """

    @classmethod
    def at(cls, frame: Frame, cause: BaseException) -> "InternalError":
        """The error for an exception that the evaluator's own code raised in an instruction."""
        code = frame.code
        decoded = frame.info.decoded
        unit = frame.ip - 1
        instruction = decoded.at(unit)
        error = cls(
            f"stator failed to evaluate {instruction.name} {instruction.arg} at unit {unit} of "
            f"{code.co_qualname} ({code.co_filename}:{decoded.line_of(unit)}): {cause!r}. "
            "This is a bug in stator; please report it."
        )
        error.__cause__ = cause
        return error
