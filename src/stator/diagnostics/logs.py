"""Logs: what stator tells about its work, when it is asked to.

Stage: all that compile. In: names, from `STATOR_LOGS` or `set_logs`. Out: records of the standard
`logging`, one logger per name (`stator.guards`, …). Whoever reports asks `on(name)` first, so that
nothing is computed for a log that is off.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Final, TextIO

LOGS: Final[dict[str, str]] = {
    "graph_breaks": "where and why a program is split, once per place; +: each time",
    "graph": "the nodes of each graph, as a table",
    "graph_code": "each graph as Python code; +: with dtypes, shapes and the program's lines",
    "graph_sizes": "the shape of each tensor in each graph",
    "guards": "what each entry assumes of its arguments and the world",
    "recompiles": "which guard failed when something is compiled again",
    "bytecode": "what runs in place of the function, as Python code; +: and as bytecode",
    "side_effects": "what happens to objects of the program after each graph",
    "dynamo": "each trace: what, how long, how many frames",
    "dynamic": "numbers in a graph that are known only when it runs",
    "perf_hints": "what keeps a function from being fast",
}
_ROOT: Final = logging.getLogger("stator")
_LOGGERS: Final = {name: _ROOT.getChild(name) for name in LOGS}


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("[%(name)s] %(message)s"))

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("this handler follows sys.stderr")


_HANDLER: Final = _Handler()
_reported: Final[set[Any]] = set()


def on(name: str, *, verbose: bool = False) -> bool:
    """Whether anyone reads this log."""
    return _LOGGERS[name].isEnabledFor(logging.DEBUG if verbose else logging.INFO)


def write(name: str, text: str, *, verbose: bool = False) -> None:
    """Writes to a log."""
    _LOGGERS[name].log(logging.DEBUG if verbose else logging.INFO, "%s", text)


def first_time(key: Any) -> bool:
    """Whether this was not reported before, since the last `forget`."""
    known = key in _reported
    _reported.add(key)
    return not known


def forget() -> None:
    """What was reported once is reported again."""
    _reported.clear()


def set_logs(names: str = "", /, **switches: bool | int) -> None:
    """Switches logs on; those that are not named are switched off.

    `set_logs("graph_breaks,+guards")` or `set_logs(graph_breaks=True, guards=logging.DEBUG)`: a
    `+`, or the level DEBUG, asks for more. They go to standard error. `STATOR_LOGS` takes the same
    names when the program starts.
    """
    levels = dict(_parsed(names))
    for name, switch in switches.items():
        if switch is not False:
            levels[name] = logging.INFO if switch is True else int(switch)
    if unknown := levels.keys() - LOGS.keys():
        known = ", ".join(LOGS)
        raise ValueError(f"stator has no log {sorted(unknown)[0]!r}. There are: {known}")
    forget()
    for name, logger in _LOGGERS.items():
        logger.setLevel(levels.get(name, logging.NOTSET))
    _ROOT.removeHandler(_HANDLER)
    if levels:
        _ROOT.addHandler(_HANDLER)
    _ROOT.propagate = not levels  # else a program with handlers of its own shows everything twice


def _parsed(names: str) -> Iterator[tuple[str, int]]:
    for name in names.split(","):
        if stripped := name.strip():
            verbose = stripped.startswith("+")
            yield stripped.removeprefix("+"), logging.DEBUG if verbose else logging.INFO


def _read_environment() -> None:
    names = os.environ.get("STATOR_LOGS", "")
    if names:
        try:
            set_logs(names)
        except ValueError as error:  # a typing error must not keep the program from running
            warnings.warn(f"STATOR_LOGS: {error}", stacklevel=2)


_read_environment()
