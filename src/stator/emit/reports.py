"""Log records and warnings of the traced program, made when the graph has run.

Stage: run time, after the graph. In: what the trace knows: the message, and the place of the
program that reports. Out: what eager would have reported there.
"""

import _warnings
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

from stator.effects.exits import Entry
from stator.emit.traceback import chain
from stator.evaluator import PACKAGE

_REGISTRY: Final = "__warningregistry__"
_set_traceback: Final = BaseException.__dict__["__traceback__"].__set__


def outside(levels: int) -> FrameType | None:
    """A frame outside of the residual function that has called our caller: 1 is its caller."""
    step: FrameType | None = sys._getframe(3)
    while step is not None:
        file = step.f_code.co_filename
        if not file.startswith((PACKAGE, "<stator")):
            levels -= 1
            if not levels:
                return step
        step = step.f_back
    return None


def warn(
    message: Warning,
    category: type[Warning],
    file: str,
    line: int,
    module: str,
    namespace: dict[str, Any] | None,
    levels: int,
    source: Any,
) -> None:
    """As `warnings.warn`: the filters and the module's registry decide whether it is shown."""
    if levels:
        frame = outside(levels)
        if frame is None:
            file, line, module, namespace = "sys", 1, "sys", sys.__dict__
        else:
            file, line, namespace = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
            name = namespace.get("__name__")
            module = name if type(name) is str else "<string>"
    registry = None if namespace is None else namespace.setdefault(_REGISTRY, {})
    _warnings.warn_explicit(message, category, file, line, module, registry, None, source)


def show_warning(
    message: Warning,
    category: type[Warning],
    file: str,
    line: int,
    module: str,
    namespace: dict[str, Any] | None,
    levels: int,
    source: Any,
) -> None:
    """A warning that is shown, whatever the filters of the world say: the program had its own."""
    if levels:
        frame = outside(levels)
        file, line = ("sys", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    shown = warnings.WarningMessage(message, category, file, line, source=source)
    warnings._showwarnmsg(shown)  # type: ignore[attr-defined]


def log(
    logger: Any,
    level: int,
    place: tuple[str, int, str],
    levels: int,
    message: Any,
    args: tuple[Any, ...],
    extra: dict[str, Any] | None,
    error: BaseException | None,
    frames: Sequence[Entry],
) -> None:
    """As `Logger._log`, with the place that its `findCaller` would have found."""
    if levels:
        frame = outside(levels)
        if frame is not None:
            place = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    info = None
    if error is not None:
        info = type(error), error, chain(frames)
        _set_traceback(error, info[2])
    file, line, function = place
    record = logger.makeRecord(
        logger.name, level, file, line, message, args, info, function, extra, None
    )
    logger.handle(record)
