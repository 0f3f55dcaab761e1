"""What ends a trace: something that can't be captured.

`Break` is the signal inside the tracer: it passes through the traced program unseen. What is raised
is one of its subclasses, the reasons of the `catalogue`. `CaptureError` is what the user gets: the
line, the reason, and what to do. `Failed` is none of these reasons: the program is not at fault.
"""

import re
import traceback
from types import CodeType
from typing import Any, ClassVar, Final

from stator import config
from stator._native._core import Frame
from stator.diagnostics.places import Place, place, shown, stack
from stator.evaluator import Abort

__all__ = ["Break", "CaptureError", "Failed", "Place", "place", "stack"]


# Where what torch says to users ends, and what it says to its own authors begins.
_INTERNALS: Final = re.compile(
    r"\s*\(?(Exception raised from |frame #\d+: |C\+\+ (Captured|stack )|For C\+\+ stack trace|"
    r"Traceback \(most recent call last\):)"
)
_MOST_LINES: Final = 3
_MOST_COLUMNS: Final = 300


def concise(reason: str) -> str:
    """A reason in a few lines; messages of torch may come with a backtrace of C++ frames."""
    internals = _INTERNALS.search(reason)
    text = reason if internals is None else reason[: internals.start()]
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    lines = [line if len(line) <= _MOST_COLUMNS else f"{line[:_MOST_COLUMNS]}…" for line in lines]
    return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "…"])


class Break(Abort):
    """Something can't be in the graph.

    The class says what kind of thing, with all that can be said about it in general; the instance
    says what it is here.
    """

    refuses: ClassVar[bool] = False
    """The program is refused, also if it could be split there."""
    id: ClassVar[str] = ""
    """SB and four digits. It stays the same for ever."""
    title: ClassVar[str] = ""
    what: ClassVar[str] = ""
    """What the program does."""
    why: ClassVar[str] = ""
    """Why a graph can't hold that."""
    fix: ClassVar[str] = ""
    """What to change. The first line stands for itself: it is in the message."""
    example: ClassVar[str] = ""
    """A program, with `program` and `arguments`, that can't be captured for this reason."""
    fixed: ClassVar[str] = ""
    """The program as it can be captured."""

    def __init__(
        self, reason: str, hint: str = "", *, whole: bool = False, asked: bool = False
    ) -> None:
        reason = concise(reason)
        super().__init__(reason)
        self.reason = reason
        self.hint = hint or self.fix.partition("\n")[0]
        self.whole = whole
        """The program can't be split around it: what is traced runs as it is, as a whole."""
        self.asked = asked
        """The program itself has asked to run as a whole: nobody has to be warned."""
        self.source = ""
        """How the program reaches the object, if one is to blame that existed before the call."""
        self.places: tuple[Place, ...] = ()
        self.instruction: tuple[CodeType, int] | None = None
        """The instruction of the outermost loop, which is where the program can be split."""

    def about(self, source: object) -> "Break":
        """Notes where the object comes from: a `Source`, or None if it was made in the call."""
        self.source = "" if source is None else str(source)
        return self

    def at(self, frame: Frame) -> "Break":
        """Notes where it happened: the frames of one loop after the other, from the inside."""
        hold = getattr(frame.ops, "hold_generators", None)
        if hold is not None:
            hold()
        found = stack(frame)
        if [each[:3] for each in self.places[: len(found)]] != [each[:3] for each in found]:
            self.places = found + self.places
            self.instruction = frame.code, frame.info.unit(frame.ip - 1)
        return self


class Failed(Break):
    """stator itself has failed at an instruction, or torch has while it reasoned about one.

    A bug, and nothing that the program could do about; but it can be split there, as around
    anything else that can't be captured.
    """

    title = "stator or torch failed here"
    fix = "please report it"

    def __init__(self, cause: BaseException, *, whole: bool = False) -> None:
        """With `whole`, it was no instruction that failed, but the trace as such."""
        self.error: BaseException | None = cause
        """What was raised, until it is clear that nobody gets it: it holds frames."""
        self.kind = type(cause).__name__
        try:
            said = str(cause).strip().partition("\n")[0]
            self.text = "".join(traceback.format_exception(cause))
        except Exception:  # of its __str__
            said = self.text = self.kind
        super().__init__(f"stator or torch failed here: {self.kind}: {said}", whole=whole)


def failures_are_raised() -> bool:
    """Whether the user wants to see failures of ours, where the program could go on."""
    return config.strict and not config.suppress_errors


class CaptureError(RuntimeError):
    """A function can't be captured as one graph."""

    def __init__(
        self,
        name: str,
        reason: str,
        hint: str = "",
        places: tuple[Place, ...] = (),
        id: str = "",
        title: str = "",
        source: str = "",
    ) -> None:
        self._given = name, reason, hint, places, id, title, source
        self.reason = reason
        self.hint = hint
        self.places = places
        self.id = id
        self.title = title
        self.source = source
        lines = [f"{name} can't be captured as one graph: {reason}"]
        lines += [f"  {line}" for line in shown(places)]
        if source:
            lines.append(f"  the object is {source}")
        if hint:
            lines.append(f"  fix: {hint}")
        if id:
            lines.append(f"  [{id}] {title}")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    @property
    def given(self) -> tuple[Any, ...]:
        """What it was made of."""
        return self._given

    @classmethod
    def of(cls, name: str, cause: Break) -> "CaptureError":
        return cls(
            name, cause.reason, cause.hint, cause.places, cause.id, cause.title, cause.source
        )
