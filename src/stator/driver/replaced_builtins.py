"""Builtin functions that the program has replaced, for everybody.

Stage: driver. In: a call that no entry fits. Out: whether `len`, `isinstance` … are Python's own:
the code that compiles needs them, as does that of Python and torch. If they are not, calls run as
they are. What nothing of that needs (`print`, `open`, `__import__`) may be another one.
"""

import builtins
from typing import Any, Final

_OTHERS: Final = frozenset(
    {
        *("print", "open", "input", "breakpoint", "help", "exit", "quit", "__import__"),
        *("copyright", "credits", "license"),
    }
)
_NAMESPACE: Final[dict[str, Any]] = vars(builtins)
_KNOWN: Final[tuple[tuple[str, Any], ...]] = tuple(
    (name, value)
    for name, value in _NAMESPACE.items()
    if callable(value) and not (name in _OTHERS or name.startswith("__"))
)


def builtins_are_replaced() -> bool:
    """Asked first of all: nothing here needs any of them."""
    for name, value in _KNOWN:  # noqa: SIM110  (`any` is one of them)
        if _NAMESPACE.get(name) is not value:
            return True
    return False
