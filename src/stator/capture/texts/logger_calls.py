"""Logging in a trace: whether a record is made is evaluated, the record itself is put off.

In: a call of a logger that is enabled for the level. Out: a `Perform`, which makes the record when
the graph has run, with the place in the program that the trace has seen, and hands it to the real
logger: its filters and handlers run then. A logger's cache of levels is no state of the program.
"""

import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.python_calls import evaluated, stand_in
from stator.capture.texts.printing import frames, perform
from stator.contracts import Depth
from stator.diagnostics.catalogue import Output
from stator.effects.exits import earlier, entries
from stator.effects.steps import Helper
from stator.effects.texts import Text
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_PARAMETERS: Final = (
    "self",
    "level",
    "msg",
    "args",
    "exc_info",
    "extra",
    "stack_info",
    "stacklevel",
)
_OWN: Final = {
    name: objects.type_dict(logging.Logger)[name] for name in ("findCaller", "makeRecord", "handle")
}
_FIELDS: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime"}
)


def _log(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`Logger._log`."""
    if len(args) > len(_PARAMETERS) or not set(_PARAMETERS).issuperset(kwargs):
        return evaluated(calls, frame, function, args, kwargs)  # raises
    given: dict[str, Any] = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
    logger, level = given["self"], given["level"]
    stacklevel = given.get("stacklevel", 1)
    if not calls.world.is_world(logger):
        raise Output("a logger that was made in the call")
    for name, own in _OWN.items():
        found = calls.tracer.getattr(frame, logger, name)
        if getattr(found, "__func__", None) is not own:
            raise Output(f"a logger with a {name} of its own")
    if given.get("stack_info"):
        raise Output("a log record shows the whole stack")
    if type(level) is not int or type(stacklevel) is not int:
        raise Output("a log record whose level or place is not known while tracing")
    if calls.tracer.namespace_value(logging.__dict__, "_srcfile") != logging._srcfile:
        raise Output("logging._srcfile is changed")
    place, outside = _place(calls, frame, stacklevel)
    values = [logger, level, place, outside, given["msg"], given["args"]]
    values += [_extra(calls, given.get("extra")), given.get("exc_info")]
    return stand_in(calls, frame, _recorded, values, None)


def _place(calls: "Calls", frame: Frame, stacklevel: int) -> tuple[tuple[str, int, str], int]:
    """As `findCaller`; the frames outside of the trace that remain to be passed."""
    place = "(unknown file)", 0, "(unknown function)"
    stacklevel = max(stacklevel, 1)
    for step in frames(calls, frame):
        code = step.f_code
        place = code.co_filename, step.f_lineno, code.co_name
        name = os.path.normcase(code.co_filename)
        if name != logging._srcfile and not ("importlib" in name and "_bootstrap" in name):
            stacklevel -= 1
            if not stacklevel:
                break
    return place, stacklevel


def _extra(calls: "Calls", extra: Any) -> Any:
    """Fields of the record, which must be as simple as they come."""
    if extra is None:
        return None
    calls.values.ready(extra, Depth.SHALLOW)
    if type(extra) is not dict or any(
        type(key) is not str or key in _FIELDS or not _kept(calls, value)
        for key, value in extra.items()
    ):
        raise Output("a log record with fields that are not constants")
    return {key: _value(calls, value) for key, value in extra.items()}


def _kept(calls: "Calls", value: Any) -> bool:
    """Whether a record may hold a value itself: it is the same at the end of the trace."""
    return CONSTANTS.holds(type(value)) or calls.tracer.texts.holds(value)


def _value(calls: "Calls", value: Any) -> Any:
    """What a record holds: a tensor as it is now."""
    texts = calls.tracer.texts
    return texts.mention(value) if texts.holds(value) and type(value) is not Text else value


def _recorded(
    logger: Any,
    level: Any,
    place: Any,
    outside: Any,
    msg: Any,
    args: Any,
    extra: Any,
    exc_info: Any,
) -> None:
    if exc_info:
        if isinstance(exc_info, tuple):
            exc_info = exc_info[1]
        elif not isinstance(exc_info, BaseException):
            exc_info = sys.exc_info()[1]
    else:
        exc_info = None
    if not _simple(msg, args):
        # As `LogRecord.getMessage`, but now: the objects may be others at the end.
        try:
            if not isinstance(msg, str):
                msg = str(msg)
            if args:
                if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
                    args = args[0]
                msg = msg % args
        except Exception:
            _unformatted()
        args = ()
    _emit(logger, level, place, outside, msg, args, extra, exc_info)


# Evaluating these asks the handlers below.
def _simple(msg: Any, args: Any) -> Any: ...
def _unformatted() -> Any: ...
def _emit(*args: Any) -> Any: ...


def _is_simple(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    msg, given = args
    return type(given) is tuple and all(_kept(calls, value) for value in (msg, *given))


def _failed(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise Output("a log message can't be formatted")


def _put_off(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    logger, level, place, outside, msg, given, extra, error = args
    passed: Any = ()
    if error is not None:
        if calls.world.is_world(error) or earlier(error) is not None:
            raise Output("an exception that existed before the call is logged, or its traceback")
        passed = entries(error)
    values = tuple(_value(calls, value) for value in given)
    args = [logger, level, place, outside, _value(calls, msg), values, extra, error, passed]
    perform(calls, frame, Helper.LOG, "log", tuple(args))


def _configure(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`logging.basicConfig()`, which `logging.info` calls if the root logger has no handlers."""
    if args or kwargs or frame.globals is not logging.__dict__:
        return evaluated(calls, frame, function, args, kwargs)
    perform(calls, frame, logging.basicConfig, "basicConfig", ())
    return None


def _clear(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A level is set: what loggers remember of levels is forgotten when it is set for real.

    A trace does not look there, and our own loggers remember something in the meantime.
    """
    if kwargs or len(args) != 1:
        return evaluated(calls, frame, function, args, kwargs)
    perform(calls, frame, function, "clear_cache", tuple(args))
    return None


LOGGING: Final[dict[int, Handler]] = {
    id(objects.type_dict(logging.Logger)["_log"]): _log,
    id(logging.basicConfig): _configure,
    id(logging.Manager._clear_cache): _clear,  # type: ignore[attr-defined]
    id(_simple): _is_simple,
    id(_unformatted): _failed,
    id(_emit): _put_off,
}
