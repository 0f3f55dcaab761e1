"""Warnings in a trace: `warnings.warn` by an evaluated twin of the C function.

In: a warning of the program, and the filters as the program sees them. Out: nothing (`ignore`), an
exception (`error`), or a call of the program's own `showwarning` (`always`), which is how
`catch_warnings(record=True)` collects them. Other actions depend on what was shown before, in
registries that are caches of C: there the trace ends.
"""

import _warnings
import contextlib
import sys
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.special import Handler, _substitute
from stator.diagnostics.breaks import Break

if TYPE_CHECKING:
    from stator.capture.calls import Calls

REGISTRY: Final = "__warningregistry__"


def _warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None) -> None:
    """As `warnings_warn_impl`: a warning at the line of a caller."""
    if isinstance(message, Warning):
        category = type(message)
    elif category is None:
        category = UserWarning
    if not isinstance(category, type) or not issubclass(category, Warning):
        name = type(category).__name__
        raise TypeError(f"category must be a Warning subclass, not '{name}'")
    try:
        frame: Any = sys._getframe(max(stacklevel, 1))
    except ValueError:
        _warn_explicit(message, category, "sys", 1, "sys", source=source)
        return
    code: types.CodeType = frame.f_code
    module = frame.f_globals.get("__name__", "<string>")
    _warn_explicit(message, category, code.co_filename, frame.f_lineno, module, source=source)


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
    """As `warn_explicit`: the first filter that matches says what to do."""
    if module is None:
        module = filename or "<unknown>"
        if module.endswith(".py"):
            module = module[:-3]
    if isinstance(message, Warning):
        text, category = str(message), type(message)
    else:
        text, message = message, category(message)
    action = warnings.defaultaction  # type: ignore[attr-defined]
    for chosen, pattern, kind, place, line in warnings.filters:
        if (
            _matches(pattern, text)
            and issubclass(category, kind)
            and _matches(place, module)
            and line in (0, lineno)
        ):
            action = chosen
            break
    if action == "error":
        raise message
    if action == "ignore":
        return
    if action != "always":
        _shown_before()
    shown = warnings.WarningMessage(message, category, filename, lineno, source=source)
    warnings._showwarnmsg(shown)  # type: ignore[attr-defined]


def _matches(pattern: Any, text: Any) -> bool:
    if pattern is None:
        return True
    if isinstance(pattern, str):
        return bool(pattern == text)
    return pattern.match(text) is not None


def _shown_before() -> None:
    """Whether a warning was shown before is not known; evaluating this ends the trace."""


def _ask_registry(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise Break(
        "a warning is issued, and whether it is shown depends on what was shown before",
        "filter the warning, or collect it with warnings.catch_warnings(record=True)",
    )


def _filters_mutated(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    """C counts the changes of the filters; if some remain at the end, the trace is given up."""
    return None


WARNINGS: Final[dict[int, Handler]] = {
    id(_warnings.warn): _substitute(_warn),
    id(_warnings.warn_explicit): _substitute(_warn_explicit),
    id(_warnings._filters_mutated): _filters_mutated,  # type: ignore[attr-defined]
    id(_shown_before): _ask_registry,
}


@contextlib.contextmanager
def applied(chosen: list[Any]) -> Iterator[None]:
    """C code runs that may warn, and looks at the real filters: it gets those of the program.

    Changing them resets registries, as `catch_warnings` in the program does, too.
    """
    before = filters()
    warnings.filters = chosen
    _mutated()
    try:
        yield
    finally:
        warnings.filters = before
        _mutated()


_mutated: Final[Any] = _warnings._filters_mutated  # type: ignore[attr-defined]


def filters() -> list[Any]:
    """The list that C code looks at."""
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    return found
