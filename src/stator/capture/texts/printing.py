"""Output in a trace: `print`, `write` of a text file. It is put off until the graph has run.

In: a call that shows something. Out: nothing happens now. What is shown becomes text in the trace,
as the program's values are at this moment, and a `Perform` says what to call with it at run time.
"""

import builtins
import io
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler, _plain
from stator.capture.calls.python_calls import stand_in
from stator.capture.trace.refusals import unseen
from stator.contracts import Depth
from stator.diagnostics.catalogue import Output
from stator.effects import Perform
from stator.effects.texts import Text
from stator.evaluator import PACKAGE
from stator.graph.recording.arguments import Arguments
from stator.guards import Callback, Fixed
from stator.objects.types import Attribute
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_KEYWORDS: Final = frozenset({"sep", "end", "file", "flush"})


def perform(
    calls: "Calls",
    frame: Frame,
    function: Any,
    name: str,
    args: tuple[Any, ...],
    keywords: dict[str, Any] | None = None,
) -> None:
    """`function` is called when the graph has run.

    The values are constants, texts and the like: what the program may change until then would be
    seen as it is at the end.
    """
    tracer = calls.tracer
    if type(tracer.tensors.graph.arguments) is not Arguments:
        raise Output("output from inside of a region, which may run more than once")
    if calls.once:
        calls.once[-1].spoke = True
        return
    tracer.performed.append(Perform(Fixed(function, name), args, tuple((keywords or {}).items())))


def frames(calls: "Calls", frame: Frame) -> Iterator[types.FrameType]:
    """The frames of the traced program, the innermost first, without our own twins."""
    step: types.FrameType | None = core.call_native(frame, sys._getframe)
    while step is not None and step.f_code is not calls.tracer.base:
        if not step.f_code.co_filename.startswith(PACKAGE):
            yield step
        step = step.f_back


def replaced(calls: "Calls", namespace: dict[str, Any], name: str) -> Any:
    """What the program itself has put in the place of a name of a module; MISSING if nothing."""
    record = calls.tracer.known_namespace(namespace)
    if record is None:
        return MISSING
    held = record.shadow if record.filled else record.items
    value = dict.get(held, name, MISSING)
    raw = namespace.get(name, MISSING)
    if value is raw or value is calls.world.stand_ins.get(id(raw), MISSING):
        return MISSING
    return value


# ---------------------------------------------------------------------- print


def _print(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not _KEYWORDS.issuperset(kwargs):
        return _plain(calls, frame, function, args, kwargs)  # raises
    file = kwargs.get("file")
    if file is None:
        file = replaced(calls, sys.__dict__, "stdout")
    made = not calls.world.is_world(file) or id(file) in calls.world.records
    if file is not MISSING and file is not None and made:
        kwargs = {**kwargs, "file": file}
        return stand_in(calls, frame, _written, [*args, *kwargs.values()], tuple(kwargs))
    if file is MISSING or file is None:
        file = None  # whatever it is at run time
    elif objects.lookup(type(file), "write") is None:
        raise Output(f"print to an object of type {type(file).__qualname__}, which is no file")
    values = [tuple(args), kwargs.get("sep"), kwargs.get("end"), file, kwargs.get("flush", False)]
    return stand_in(calls, frame, _printed, values, None)


def _checked(sep: Any, end: Any) -> None:
    if sep is not None and not isinstance(sep, str):
        raise TypeError(f"sep must be None or a string, not {type(sep).__name__}")
    if end is not None and not isinstance(end, str):
        raise TypeError(f"end must be None or a string, not {type(end).__name__}")


def _printed(values: Any, sep: Any, end: Any, file: Any, flush: Any) -> None:
    """As `builtin_print`, but for the writing."""
    _checked(sep, end)
    texts: list[str] = []
    try:
        for value in values:
            texts.append("".join((str(value),)))  # no subclass: its `__str__` would be asked again
    except BaseException:
        if texts:
            _show(texts, sep, " " if sep is None else sep, file, False)
        raise
    _show(texts, sep, end, file, bool(flush))


def _show(texts: Any, sep: Any, end: Any, file: Any, flush: Any) -> None:
    """In a trace, `_put_off`. It runs as it is where a text could not be made in a trace."""
    print(*texts, sep=sep, end=end, file=file, flush=flush)


def _put_off(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    texts, sep, end, file, flush = args
    calls.values.ready(texts, Depth.SHALLOW)  # it is of the world, if a text could not be made here
    given = {"sep": sep, "end": end, "file": file, "flush": flush or None}
    keywords = {name: value for name, value in given.items() if value is not None}
    perform(calls, frame, print, "print", tuple(texts), keywords)


def _written(
    *values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False
) -> None:
    """As `builtin_print`, to a file whose methods are the program's own."""
    _checked(sep, end)
    first = True
    for value in values:
        if not first:
            file.write(" " if sep is None else sep)
        first = False
        file.write(str(value))
    file.write("\n" if end is None else end)
    if flush:
        file.flush()


# ---------------------------------------------------------------------- files


class Unknown:
    """A number of characters that is not known while tracing."""


def file_method(file: Any, name: str, found: Attribute | None) -> Any:
    """A method of a text file of the world, None if it can't be put off."""
    function = _FILE_METHODS.get(name)
    if function is None or not objects.is_subtype(type(file), _TEXT_FILE):
        return None
    if found is None or type(found.value) is not types.MethodDescriptorType:
        return None
    return types.MethodType(function, file)


def _write(file: Any, text: Any) -> Any:
    """`file.write`; in a trace it is put off."""
    return file.write(text)


def _flush(file: Any) -> None:
    file.flush()


def _put_off_write(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    if kwargs or len(args) != 2 or type(args[1]) not in (str, Text):
        raise Output("a file gets something that is no text")
    perform(calls, frame, _write, "write", tuple(args))
    if type(args[1]) is str:
        return len(args[1])
    unknown = Unknown()
    calls.world.opaque[id(unknown)] = "int (a number of characters)"
    calls.world.keep(unknown)
    return unknown


def _put_off_flush(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    if kwargs or len(args) != 1:
        raise Output("a file is flushed with arguments")
    perform(calls, frame, _flush, "flush", tuple(args))


def _fileno(file: Any, *args: Any) -> Any:
    return file.fileno(*args)


def _isatty(file: Any, *args: Any) -> Any:
    return file.isatty(*args)


def _asked(file: Any, name: str) -> Any:
    """What a file of the operating system tells about itself; MISSING of any other file."""
    if type(file) is not io.TextIOWrapper:
        return MISSING
    try:
        held: Any = file.buffer
        raw = held.raw if _BUFFERS.holds(type(held)) else held
        if type(raw) is not io.FileIO:
            return MISSING
        return getattr(file, name)()
    except (ValueError, OSError) as error:  # it is closed, or detached
        return type(error), error.args


def _ask_file(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The answer is guarded by asking again."""
    file, name = args[0], function.__name__[1:]
    answer = MISSING if kwargs or len(args) != 1 else _asked(file, name)
    if answer is MISSING or id(file) not in calls.world.origins:
        raise unseen(calls.world, file, f"an attribute of {{}} is read: {name}")
    check = Callback(lambda asked: _asked(asked, name) == answer, f"{name}() is {answer!r}")
    calls.world.guard(calls.world.origins[id(file)], check)
    if type(answer) is tuple:
        kind, given = answer
        core.raise_user(kind(*given))
    return answer


_TEXT_FILE: Final = io.TextIOBase.__mro__[1]  # the C class, of which all text files of C are
_FILE_METHODS: Final[dict[str, Any]] = {
    "write": _write,
    "flush": _flush,
    "fileno": _fileno,
    "isatty": _isatty,
}
_BUFFERS: Final = objects.TypeSet(io.BufferedWriter, io.BufferedReader, io.BufferedRandom)


PRINTING: Final[dict[int, Handler]] = {
    id(builtins.print): _print,
    id(_show): _put_off,
    id(_write): _put_off_write,
    id(_flush): _put_off_flush,
    id(_fileno): _ask_file,
    id(_isatty): _ask_file,
}
