"""What ends a trace: something that can't be captured.

`Break` is the signal inside the tracer: it passes through the traced program unseen.
`CaptureError` is what the user gets: the line, the reason, and what to do.
"""

from pathlib import Path
from types import CodeType
from typing import Final, NamedTuple

from stator._native._core import Frame
from stator.evaluator import Abort


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def place(frame: Frame) -> Place:
    """Where a frame is."""
    code = frame.code
    return Place(code.co_filename, frame.info.line(code, frame.ip - 1), code.co_qualname)


_OURS: Final = str(Path(__file__).parents[1])


def stack(frame: Frame) -> tuple[Place, ...]:
    """A frame and those that called it, the innermost last; without stator's own."""
    places = []
    step: Frame | None = frame
    while step is not None:
        if not step.code.co_filename.startswith(_OURS):
            places.append(place(step))
        step = step.caller
    return tuple(reversed(places))


class Break(Abort):
    """Something can't be in the graph."""

    def __init__(self, reason: str, hint: str = "", *, whole: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.whole = whole
        """The program can't be split around it: what is traced runs as it is, as a whole."""
        self.places: tuple[Place, ...] = ()
        self.instruction: tuple[CodeType, int] | None = None
        """The instruction of the outermost loop, which is where the program can be split."""

    def at(self, frame: Frame) -> "Break":
        """Notes where it happened: the frames of one loop after the other, from the inside."""
        hold = getattr(frame.ops, "hold_generators", None)
        if hold is not None:
            hold()
        found = stack(frame)
        if self.places[: len(found)] != found:
            self.places = found + self.places
            self.instruction = frame.code, frame.info.unit(frame.ip - 1)
        return self


class CaptureError(RuntimeError):
    """A function can't be captured as one graph."""

    def __init__(self, name: str, reason: str, hint: str, places: tuple[Place, ...]) -> None:
        self.reason = reason
        self.hint = hint
        self.places = places
        lines = [f"{name} can't be captured as one graph: {reason}"]
        if places:
            lines.append(f"  at {places[-1]}")
            lines += [f"  called from {outer}" for outer in reversed(places[:-1])]
        if hint:
            lines.append(f"  fix: {hint}")
        super().__init__("\n".join(lines))

    @classmethod
    def of(cls, name: str, cause: Break) -> "CaptureError":
        return cls(name, cause.reason, cause.hint, cause.places)
