"""The C module `_csv`: readers, writers, and the dialects that programs have registered.

Stage: capture. In: calls of its functions. Out: the same, as Python functions that are evaluated:
dialects are in a dict of the module, a dict of the world like any other; the lines of a reader and
what a writer writes go through the tracer. Readers and writers are made and used in the trace.
"""

import _csv
import types
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler, _plain
from stator.capture.calls.held_callables import callee
from stator.capture.calls.native_calls import by_contract, known_number
from stator.capture.calls.python_calls import stand_in
from stator.capture.trace.refusals import unseen
from stator.diagnostics.catalogue import HiddenState, OpaqueObject
from stator.effects.texts import Text
from stator.guards import Callback, Fixed
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_FIELDS: Final = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"),
    *("skipinitialspace", "strict"),
)
_NUMBERS: Final = ("__index__", "__int__", "__float__", "__complex__")
_WRITER: Final[Any] = objects.type_dict(_csv.Writer)
_DIALECTS: Final = "_dialects"

# ---------------------------------------------------------------------- evaluated


def _dialect(given: Any, options: Any) -> Any:
    """As `_call_dialect` and `dialect_new`; `given` is empty, or holds the dialect."""
    for name in options:
        if name != "dialect" and name not in _FIELDS:
            return _made_dialect(None, options)  # raises
    if "dialect" in options:
        if given:
            return _made_dialect(given[0], options)  # raises
        given = (options.pop("dialect"),)
    if not given:
        return _made_dialect(None, options)
    (dialect,) = given
    if isinstance(dialect, str):
        dialect = get_dialect(dialect)
    if isinstance(dialect, _csv.Dialect) and not options:
        return dialect
    found = {}
    for name in _FIELDS:
        if name not in options:
            try:
                found[name] = getattr(dialect, name)
            except BaseException:  # as C code does
                continue
    return _made_dialect(types.SimpleNamespace(**found), options)


def _made_dialect(found: Any, options: Any) -> Any:
    """In a trace, `_make_dialect`."""
    return _csv.Dialect(found, **options)


def dialect_new(*given: Any, **options: Any) -> Any:
    return _dialect(given, options)


def get_dialect(name: Any) -> Any:
    found = getattr(_csv, _DIALECTS).get(name)
    if found is None:
        raise _csv.Error("unknown dialect")
    return found


def register_dialect(name: Any, *given: Any, **options: Any) -> None:
    if not isinstance(name, str):
        raise TypeError("dialect name must be a string")
    getattr(_csv, _DIALECTS)[name] = _dialect(given, options)


def unregister_dialect(name: Any) -> None:
    try:
        del getattr(_csv, _DIALECTS)[name]
    except KeyError:
        raise _csv.Error("unknown dialect") from None


def list_dialects() -> list[str]:
    return list(getattr(_csv, _DIALECTS))


class Lines:
    """The lines of a reader: what C code asks of it comes back to the tracer."""

    def __init__(self, lines: Any) -> None:
        self.lines = lines

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> Any:
        return _line(next(self.lines))


def _line(line: Any) -> Any:
    """In a trace, `_check_line`."""
    return line


def reader(lines: Any, *given: Any, **options: Any) -> Any:
    made = Lines(iter(lines))
    return _made_reader(made, _dialect(given, options))


def _made_reader(lines: Any, dialect: Any) -> Any:
    """In a trace, `_make_reader`."""
    return _csv.reader(lines, dialect)


def writer(file: Any, *given: Any, **options: Any) -> Any:
    write = getattr(file, "write", None)
    if not callable(write):
        raise TypeError('argument 1 must have a "write" method')
    return _made_writer(write, _dialect(given, options))


def _made_writer(write: Any, dialect: Any) -> Any:
    """In a trace, `_make_writer`."""
    return _csv.writer(types.SimpleNamespace(write=write), dialect)


def _field(value: Any) -> Any:
    """As `csv_writerow` makes a text of it; numbers are told from others by C code."""
    kind = type(value)
    if value is None or isinstance(value, str) or any(hasattr(kind, name) for name in _NUMBERS):
        return value
    return str(value)


def writerow(writer: Any, row: Any) -> Any:
    try:
        values = iter(row)
    except TypeError:
        raise _csv.Error(f"iterable expected, not {type(row).__name__:.200}") from None
    return _written(writer, [_field(each) for each in values], isinstance(row, list | tuple))


def writerows(writer: Any, rows: Any) -> None:
    for row in rows:
        writerow(writer, row)


def _written(writer: Any, fields: Any, _whole: bool) -> Any:
    """In a trace, `_write`."""
    return writer.writerow(fields)


# ---------------------------------------------------------------------- carried out


def _make_dialect(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    found, options = args
    read = vars(found).values() if type(found) is types.SimpleNamespace else ()
    values = [*read, *options.values()]
    if not all(CONSTANTS.holds(type(each)) for each in values):
        raise OpaqueObject("a dialect of csv is made of more than constants")
    given = [] if found is None else [found]
    return core.call(frame, _csv.Dialect, [*given, *options.values()], tuple(options) or None)


def _make_reader(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    limit = _csv.field_size_limit()
    check = Callback(lambda asked: asked() == limit, f"csv.field_size_limit() is {limit}")
    calls.world.guard(Fixed(_csv.field_size_limit), check)
    return core.call(frame, _csv.reader, args, None)


def _make_writer(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    write, dialect = args
    file = types.SimpleNamespace(write=callee(calls, write))
    return core.call(frame, _csv.writer, [file, dialect], None)


def _check_line(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    if type(args[0]) is Text:
        raise unseen(calls.world, args[0], "csv.reader reads {}")
    return args[0]


def _write(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    made, fields, whole = args
    fields = [known_number(calls, frame, each, "csv.writer") for each in fields]
    for each in fields:
        if calls.tensors.holds(type(each)) or type(each) is Text:
            raise unseen(calls.world, each, "csv.writer reads {}")
    try:
        return core.call(frame, _WRITER["writerow"], [made, fields], None)
    except _csv.Error:
        if whole:
            raise
        # C code would not have asked for the rest of the row.
        raise HiddenState("a row that is made while it is written can't be written") from None


def _by(function: Any, least: int, most: int | None) -> Handler:
    """What is evaluated instead, for calls with as many positional arguments."""

    def handler(calls: "Calls", frame: Frame, called: Any, args: list[Any], kwargs: Any) -> Any:
        if len(args) < least or (most is not None and len(args) > most):
            return _plain(calls, frame, called, args, kwargs)  # raises
        values = [*args, *kwargs.values()]
        return stand_in(calls, frame, function, values, tuple(kwargs) or None)

    return handler


def _new(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) > 1:
        return by_contract(calls, frame, function, args, kwargs)
    return stand_in(calls, frame, dialect_new, [*args, *kwargs.values()], tuple(kwargs) or None)


def _limit(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if args or kwargs:
        return by_contract(calls, frame, function, args, kwargs)
    limit = function()
    check = Callback(lambda asked: asked() == limit, f"csv.field_size_limit() is {limit}")
    calls.world.guard(Fixed(function), check)
    return limit


CSV: Final[dict[int, Handler]] = {
    id(_csv.Dialect): _new,
    id(_csv.get_dialect): _by(get_dialect, 1, 1),
    id(_csv.register_dialect): _by(register_dialect, 1, 2),
    id(_csv.unregister_dialect): _by(unregister_dialect, 1, 1),
    id(_csv.list_dialects): _by(list_dialects, 0, 0),
    id(_csv.field_size_limit): _limit,
    id(_csv.reader): _by(reader, 1, 2),
    id(_csv.writer): _by(writer, 1, 2),
    id(_WRITER["writerow"]): _by(writerow, 2, 2),
    id(_WRITER["writerows"]): _by(writerows, 2, 2),
    id(_made_dialect): _make_dialect,
    id(_made_reader): _make_reader,
    id(_made_writer): _make_writer,
    id(_line): _check_line,
    id(_written): _write,
}
