"""Errors in compiled graphs: their tracebacks show the lines of the program.

Stage: run time, when a graph has raised, and the program can't run in its place (`rerun.py`). In:
the exception, and where the nodes of the graph come from. Out: the same exception, whose traceback
has the frames of the program, as without stator, in place of generated code. If nobody knows which
operation it was, the residual function is shown, and a note says which lines the graph computes.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Final

import torch
import torch.fx as fx

from stator.diagnostics.artefacts import Title
from stator.diagnostics.places import Place, source_line, users_own
from stator.driver.naming import Lines, lines_of
from stator.driver.rerun import Rerun
from stator.effects.exits import Entry
from stator.emit.traceback import chain
from stator.evaluator import PACKAGE
from stator.graph.passes.retry import Refused

_TORCH: Final = os.path.dirname(torch.__file__) + os.sep
_GENERATED: Final = "<eval_with_key>"  # how torch.fx calls the file of a graph's code
_MOST: Final = 6  # lines in a note


class Failures:
    """What to do when a graph has raised: the `failed` of its residual function."""

    def __init__(self, title: Title, lines: Lines, rerun: Rerun) -> None:
        self._title = title
        self._file = title.file("graph")
        self._lines = lines
        self._rerun = rerun

    def __call__(self, at: Entry, framed: bool) -> None:
        """With `framed`, the residual function's frame comes first in the traceback."""
        error = sys.exc_info()[1]
        if error is None or type(error) is Refused:
            return
        try:
            places, behind = self._origin(error)
            self._rerun(error)
            if places:
                error.__traceback__ = chain([_entry(place) for place in places], behind)
            else:
                self._note(error)
                first = error.__traceback__
                if framed and first is not None:
                    first = first.tb_next
                error.__traceback__ = chain([at], _generated(first))
        finally:
            error = behind = first = None  # they have this frame in them

    def _origin(self, error: BaseException) -> tuple[Sequence[Place], TracebackType | None]:
        """Where the program was, if that is known, and the frames behind the graph's."""
        places: Sequence[Place] = ()
        behind = None
        for step in _steps(error.__traceback__):
            found = self._places(step.tb_frame, step.tb_lineno)
            if found:
                places, behind = found, step.tb_next
                if step.tb_frame.f_code.co_filename != self._file:
                    # An operator of torch in place of the program's: how it is called is no news.
                    behind = _behind_torch(behind)
        return places, behind

    def _places(self, frame: FrameType, line: int) -> Sequence[Place]:
        """Where the program was, if this is the frame of a graph."""
        file = frame.f_code.co_filename
        if file == self._file:
            return self._lines.get(line, ())
        if file.startswith(_GENERATED):
            module = frame.f_locals.get("self")
            if isinstance(module, fx.GraphModule):
                return lines_of(module).get(line, ())
        return ()

    def _note(self, error: BaseException) -> None:
        places = dict.fromkeys(users_own(places) for places in self._lines.values() if places)
        lines = [f"This happened in {self._title.graph}, which computes"]
        for place in list(places)[:_MOST]:
            lines.append(f"  {place.file}:{place.line}: {source_line(place).strip()}")
        if len(places) > _MOST:
            lines.append(f"  and {len(places) - _MOST} more lines")
        note = "\n".join(lines)
        if places and note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _entry(place: Place) -> Entry:
    name = place.function.rpartition(".")[2]
    return Entry(place.file, place.line, name, place.function)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _behind_torch(traceback: TracebackType | None) -> TracebackType | None:
    """From the first frame on that is not torch's."""
    while traceback is not None and _is_torch(traceback):
        traceback = traceback.tb_next
    return traceback


def _generated(traceback: TracebackType | None) -> TracebackType | None:
    """Without stator's own frames, and without torch's that lead to generated code."""
    kept: list[TracebackType] = []
    for step in _steps(traceback):
        file = step.tb_frame.f_code.co_filename
        if not file.startswith((PACKAGE, _TORCH)):
            kept = [each for each in kept if not _is_torch(each)]
        if not file.startswith(PACKAGE):
            kept.append(step)
    made = None
    for step in reversed(kept):
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


def _is_torch(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(_TORCH)
