"""Warnings in a trace: `warnings.warn` by an evaluated twin of the C function.

In: a warning of the program, and the filters as the program sees them. Out: nothing (`ignore`), an
exception (`error`), or a warning that is put off until the graph has run: then the real
`warn_explicit` looks at the filters, and at the registry of the module, which says what was shown
before. The place is that of the trace.

Inside of `catch_warnings` the program has filters of its own, and perhaps a list in which it
collects warnings. Then the twin decides what is shown. A registry is no longer valid when the
filters have changed, so all that counts is what was shown since, in the trace itself.
"""

import _warnings
import warnings
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler, _plain, _substitute
from stator.capture.calls.python_calls import stand_in
from stator.capture.texts.printing import frames, perform, replaced
from stator.capture.texts.warning_filters import LOCKED, MUTATED, mutated
from stator.diagnostics.catalogue import WarningControl
from stator.effects.steps import Helper
from stator.effects.texts import Text
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

REGISTRY: Final = "__warningregistry__"
_PARAMETERS: Final = ("message", "category", "stacklevel", "source")
_KNOWN: Final = frozenset({*_PARAMETERS, "skip_file_prefixes"})
_ALWAYS: Final = ("always", "all")


class Location:
    """Where a warning is said to come from."""

    def __init__(self, file: str, line: int, module: str, registry: Any, outside: int) -> None:
        self.file = file
        self.line = line
        self.module = module
        self.registry = registry
        self.outside = outside  # so many frames outside of the trace; the rest is not known then


def _warn(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """As `warnings_warn_impl`: a warning at the line of a caller."""
    if (not args and "message" not in kwargs) or len(args) > 4 or not _KNOWN.issuperset(kwargs):
        return _plain(calls, frame, function, args, kwargs)  # raises
    given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
    prefixes, level = given.get("skip_file_prefixes", ()), given.get("stacklevel", 1)
    if type(level) is not int or type(prefixes) is not tuple:
        raise WarningControl("a warning whose place is not known while tracing")
    where = _location(calls, frame, level, prefixes)
    values = [given["message"], given.get("category"), where, given.get("source")]
    return stand_in(calls, frame, _warned, values, None)


def _location(calls: "Calls", frame: Frame, level: int, prefixes: tuple[str, ...]) -> Location:
    """As `setup_context`."""
    if prefixes:
        level = max(level, 2)  # counted are the frames of other files
    level = max(level, 1)
    for number, step in enumerate(frames(calls, frame)):
        skipped = number > 0 and step.f_code.co_filename.startswith(prefixes) and bool(prefixes)
        level -= not skipped
        if level == 0:
            namespace = step.f_globals
            module = calls.tracer.namespace_value(namespace, "__name__")
            if type(module) is not str:
                module = "<string>"
            registry = calls.tracer.namespace(namespace).shadow
            return Location(step.f_code.co_filename, step.f_lineno, module, registry, 0)
    if prefixes:
        raise WarningControl(
            "a warning is attributed to a caller of the compiled function, by prefixes"
        )
    return Location("", 0, "", None, level)


def _warned(message: Any, category: Any, where: Location, source: Any) -> None:
    if isinstance(message, Warning):
        category = type(message)
    elif category is None:
        category = UserWarning
    if not isinstance(category, type) or not issubclass(category, Warning):
        name = type(category).__name__
        raise TypeError(f"category must be a Warning subclass, not '{name}'")
    _issued(message, category, where, source)


def _warn_explicit(
    message: Any,
    category: Any,
    filename: Any,
    lineno: Any,
    module: Any = None,
    registry: Any = None,
    module_globals: Any = None,
    source: Any = None,
) -> None:
    if module is None:
        module = filename or "<unknown>"
        if module.endswith(".py"):
            module = module[:-3]
    _issued(message, category, _explicit(filename, lineno, module, registry), source)


def _explicit(filename: Any, lineno: Any, module: Any, registry: Any) -> Any:
    """Evaluating this asks `_explicit_location`."""


def _explicit_location(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    file, line, module, registry = args
    if type(file) is not str or type(line) is not int or type(module) is not str:
        raise WarningControl("a warning whose place is not known while tracing")
    if registry is not None:
        raise WarningControl("a warning is issued with a registry of the program's own")
    return Location(file, line, module, None, 0)


def _issued(message: Any, category: Any, where: Location, source: Any) -> None:
    """As `warn_explicit`: the first filter that matches says what to do."""
    if isinstance(message, Warning):
        text, category = str(message), type(message)
    else:
        text, message = message, category(message)
    action = warnings.defaultaction  # type: ignore[attr-defined]
    unsure = False
    for chosen, pattern, kind, place, line in warnings.filters:
        if (
            issubclass(category, kind)
            and (place is None or _matches(place, _module(where)))
            and (line == 0 or line == _line(where))
        ):
            if pattern is not None and not _is_known(text):
                unsure = True
                if chosen == "error":
                    action = chosen
                    break
            elif _matches(pattern, text):
                action = chosen
                break
    if action == "error" and not unsure:
        raise message
    if action == "ignore" and not unsure:
        return
    decision = _decided(action, text, category, where, unsure)
    if decision == "put off":
        _put_off(message, category, where, source)
    elif decision == "show":
        _show(message, category, where, source)
    elif decision == "collect":
        shown = warnings.WarningMessage(
            message, category, _file(where), _line(where), source=source
        )
        warnings._showwarnmsg(shown)  # type: ignore[attr-defined]


def _matches(pattern: Any, text: Any) -> bool:
    if pattern is None:
        return True
    if isinstance(pattern, str):
        return bool(pattern == text)
    return pattern.match(text) is not None


# Evaluating these asks the handlers below.
def _file(where: Location) -> Any: ...
def _line(where: Location) -> Any: ...
def _module(where: Location) -> Any: ...
def _is_known(text: Any) -> Any: ...
def _decided(action: Any, text: Any, category: Any, where: Location, unsure: Any) -> Any: ...
def _put_off(message: Any, category: Any, where: Location, source: Any) -> Any: ...
def _show(message: Any, category: Any, where: Location, source: Any) -> Any: ...


def _part(name: str) -> Handler:
    """A part of a location, which must be inside of the trace."""

    def handler(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
        if args[0].outside:
            raise WarningControl(
                "a filter asks where a warning comes from: a caller of the function"
            )
        return getattr(args[0], name)

    return handler


def _decide(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> str:
    """Who is asked what was shown before, and who shows it."""
    action, text, category, where, unsure = args
    own = replaced(calls, warnings.__dict__, "filters") is not MISSING
    collects = any(replaced(calls, warnings.__dict__, name) is not MISSING for name in _SHOWING)
    if unsure and (own or collects or action == "error"):
        raise WarningControl("a filter looks at the text of a warning, which mentions a tensor")
    if not own and not collects:
        return "put off"
    if action not in _ALWAYS:
        if type(text) is not str or where.outside:
            raise WarningControl("whether a warning was shown before is not known while tracing")
        key = id(where.registry), text, id(category)
        if (*key, where.line) in calls.warned:
            return "drop"
        calls.warned.add((*key, where.line))
        if action != "default" and key in calls.warned:
            return "drop"
        if action != "default":
            calls.warned.add(key)
    return "collect" if collects else "show"


_SHOWING: Final = ("showwarning", "_showwarnmsg", "_showwarnmsg_impl")


def _known(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    return type(args[0]) is not Text


def _perform(helper: Helper) -> Handler:
    def handler(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
        message, category, where, source = args
        if calls.filters_mutated and not calls.once:
            calls.filters_mutated = False
            perform(calls, frame, mutated, "filters_mutated", ())
        place = (where.file, where.line, where.module, where.registry, where.outside)
        perform(calls, frame, helper, helper.value, (message, category, *place, source))

    return handler


def _filters_mutated(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    """C counts the changes of the filters; if some remain at the end, the trace is given up.

    Each makes registries invalid: what comes later may be shown again.
    """
    calls.warned.clear()
    calls.filters_mutated = True


def _nothing(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """The lock on the filters (3.14+): a trace changes those of nobody else."""


_LOCKS: Final[Any] = (
    (_warnings._acquire_lock, _warnings._release_lock) if LOCKED else ()  # type: ignore[attr-defined]
)
WARNINGS: Final[dict[int, Handler]] = {
    **{id(function): _nothing for function in _LOCKS},
    id(_warnings.warn): _warn,
    id(_warnings.warn_explicit): _substitute(_warn_explicit),
    id(MUTATED): _filters_mutated,
    id(_explicit): _explicit_location,
    id(_file): _part("file"),
    id(_line): _part("line"),
    id(_module): _part("module"),
    id(_decided): _decide,
    id(_is_known): _known,
    id(_put_off): _perform(Helper.WARN),
    id(_show): _perform(Helper.SHOW_WARNING),
}
