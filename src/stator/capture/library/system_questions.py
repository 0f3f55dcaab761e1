"""What a program asks the operating system, and what it tells it about the environment.

Stage: capture. In: a call that only asks (`os.stat`, `os.getcwd`, `time.localtime(seconds)`), with
constants. Out: the answer, or the error. The guard is that the same question has the same answer
when the call is made again, so that the answer is never wrong; a question whose answer was found to
be another one is not answered a second time.

Variables of the environment are set behind the graph (`Perform`): programs read them from
`os.environ`, a dict like any other, and C code that reads them does not run in a trace.
"""

import _locale
import datetime
import importlib
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.builtin_calls import _plain as _plain_call
from stator.capture.calls.native_calls import by_contract, describe
from stator.capture.calls.python_calls import evaluated
from stator.capture.texts.printing import perform
from stator.contracts import Depth
from stator.guards import Callback, Fixed
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_PATHS: Final = ("stat", "lstat", "access", "readlink", "listdir")
_PROCESS: Final = (
    *("getcwd", "getcwdb", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid"),
    *("cpu_count", "uname", "get_terminal_size"),
)
# With an argument for each parameter: without one they read the clock.
_TIMES: Final = {"gmtime": 1, "localtime": 1, "ctime": 1, "asctime": 1, "mktime": 1, "strftime": 2}
_strptime: Final[Any] = importlib.import_module("_strptime")
_CACHES: Final = ("_TimeRE_cache", "_regex_cache")  # of that module
_LOCALE: Final = ("setlocale", "nl_langinfo", "getencoding")
_ENVIRONMENT: Final = ("putenv", "unsetenv")
_MOST_NAMES: Final = 1000  # in a folder that is listed
_changed: Final[set[Any]] = set()  # questions whose answers were found to be others


class _Answer:
    """What a call gives: a value or an error, without what is different each time."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        try:
            self.value = function(*args, **kwargs)
        except Exception as error:
            self.error = error.with_traceback(None)

    @property
    def mark(self) -> Any:
        if self.error is not None:
            return type(self.error), self.error.args, getattr(self.error, "filename", None)
        # A structure of C tells more than its items: a time has a zone, a file nanoseconds.
        kind = type(self.value)
        reduced = self.value.__reduce__() if kind is not tuple and issubclass(kind, tuple) else None
        return kind, self.value, reduced


class _Same:
    """Whether a question has the answer that it had."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._question = function, args, kwargs
        self._mark = _Answer(*self._question).mark

    def __call__(self, _: object) -> bool:
        found = _Answer(*self._question).mark
        if found == self._mark:
            return True
        if _unread(found) != _unread(self._mark):
            _changed.add(_key(*self._question))
        return False


def _unread(mark: Any) -> Any:
    """Without when a file was last read, which the program itself may do behind the question."""
    if mark[0] is not os.stat_result:
        return mark
    fields = {name: value for name, value in mark[2][1][1].items() if "atime" not in name}
    return fields, mark[1][: stat.ST_ATIME], mark[1][stat.ST_ATIME + 1 :]


def _key(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # With types: 1 and 1.0 are different questions to some, and never worth the same entry.
    named = sorted(kwargs.items())
    return id(function), repr((args, named))


def _ask(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    given = tuple(_plain(frame, args[:1], function)) + tuple(args[1:])
    known = all(_is_constant(calls, each) for each in (*given, *kwargs.values()))
    if not known or not _is_complete(function, given, kwargs) or may_have_written(calls):
        return by_contract(calls, frame, function, args, kwargs)
    if _key(function, given, kwargs) in _changed:
        return by_contract(calls, frame, function, args, kwargs)
    answer = _Answer(function, given, kwargs)
    if type(answer.value) is list and len(answer.value) > _MOST_NAMES:
        return by_contract(calls, frame, function, args, kwargs)
    same = _Same(function, given, kwargs)
    if same._mark != answer.mark:  # it is changing right now
        return by_contract(calls, frame, function, args, kwargs)
    calls.world.guard(Fixed(function), Callback(same, f"{describe(function)} answers as it did"))
    if answer.error is not None:
        core.raise_user(answer.error)
    return answer.value


def _plain(frame: Frame, path: list[Any], function: Any) -> list[Any]:
    """A path that is an object, as text."""
    if not path or function.__module__ != "posix" or type(path[0]) in (str, bytes):
        return path
    if function.__name__ not in _PATHS or CONSTANTS.holds(type(path[0])):
        return path
    return [core.call(frame, os.fspath, path, None)]


def _is_constant(calls: "Calls", value: Any) -> bool:
    if type(value) is time.struct_time:
        return id(value) not in calls.world.opaque
    if type(value) is tuple:
        calls.values.ready(value, Depth.SHALLOW)
        return all(_is_constant(calls, each) for each in value)
    return CONSTANTS.holds(type(value))


def _is_complete(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    name = function.__name__
    if function.__module__ == "time":
        return len(args) == _TIMES[name] and not kwargs and args[-1] is not None
    if name == "setlocale":  # with a second argument, it is changed
        return len(args) == 1 or args[1:] == (None,)
    if name in _PATHS:  # an open file, or a folder that is open, is nothing that stays
        return type((*args, ".")[0]) in (str, bytes) and kwargs.get("dir_fd") is None
    return True


def may_have_written(calls: "Calls") -> bool:
    """Whether something was put off that may change files."""
    performed = (each.target for each in calls.tracer.performed)
    return not all(type(each) is Fixed and id(each.value) in _QUIET for each in performed)


def _tell(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    valid = not kwargs and len(args) == (2 if function.__name__ == "putenv" else 1)
    valid = valid and all(type(each) in (str, bytes) and _is_plain_text(each) for each in args)
    if not valid or not args[0] or "=" in os.fsdecode(args[0]):
        return by_contract(calls, frame, function, args, kwargs)
    perform(calls, frame, function, function.__name__, tuple(args))
    return None


def _is_plain_text(value: str | bytes) -> bool:
    return "\0" not in os.fsdecode(value)


def _read_time(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`_strptime._strptime` compiles formats, and keeps them: as C code does with those of `re`.

    What it answers depends on the locale and on the zone, so it is asked again.
    """
    texts = all(type(each) is str for each in (*args, *kwargs.values()))
    if not texts or _looked_at_caches(calls) or _key(function, tuple(args), kwargs) in _changed:
        return evaluated(calls, frame, function, args, kwargs)
    return _ask(calls, frame, function, args, kwargs)


def _looked_at_caches(calls: "Calls") -> bool:
    """Whether the program itself has used what the module keeps."""
    record = calls.tracer.known_namespace(vars(_strptime))
    return record is not None and (record.filled or any(name in record.items for name in _CACHES))


def _time_of(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`time.strptime`, which imports a module and calls its function."""
    if kwargs:
        return _plain_call(calls, frame, function, args, kwargs)  # raises
    return calls.function(frame, _strptime._strptime_time, args, None)


def _datetime_of(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`datetime.strptime`, as `datetime_strptime`; the first argument is the class."""
    given = [type(each) for each in args[1:]]
    if kwargs or len(given) != 2 or not all(objects.is_subtype(each, str) for each in given):
        return by_contract(calls, frame, function, args, kwargs)
    return calls.function(frame, _strptime._strptime_datetime, args, None)


ASKED: Final[dict[int, Handler]] = {
    **{id(getattr(os, name)): _ask for name in _PATHS + _PROCESS if hasattr(os, name)},
    **{id(getattr(time, name)): _ask for name in _TIMES},
    **{id(getattr(os, name)): _tell for name in _ENVIRONMENT},
    **{id(getattr(_locale, name)): _ask for name in _LOCALE if hasattr(_locale, name)},
    id(_strptime._strptime): _read_time,
    id(time.strptime): _time_of,
    id(objects.type_dict(datetime.datetime)["strptime"]): _datetime_of,
}
_QUIET: Final = frozenset(id(getattr(os, name)) for name in _ENVIRONMENT)
