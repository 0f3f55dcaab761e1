"""Logs: what stator tells about its work, when it is asked to.

Stage: all that compile. In: names, from `STATOR_LOGS`, `TORCH_LOGS` or `set_logs`. Out: records of
the standard `logging`, one logger per name (`stator.guards`, …). Whoever reports asks `on(name)`
first, so that nothing is computed for a log that is off. How records look, and where they go, is in
`log_output.py`.
"""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final, Protocol

from stator.diagnostics.log_output import direct

LOGS: Final[dict[str, str]] = {
    "graph_breaks": "where and why a program is split, once per place; +: each time",
    "graph": "the nodes of each graph, as a table",
    "graph_code": "each graph as Python code; +: with dtypes, shapes and the program's lines",
    "graph_sizes": "the shape of each tensor in each graph",
    "guards": "what each entry assumes of its arguments and the world",
    "recompiles": "which guard failed when something is compiled again",
    "bytecode": "what runs in place of the function, as Python code; +: and as bytecode",
    "side_effects": "what happens to objects of the program after each graph",
    "dynamo": "each trace: what, how long, how many frames; +: each instruction",
    "dynamic": "numbers in a graph that are known only when it runs",
    "regions": "parts of a graph that are graphs of their own: branches, loop bodies, checkpoints",
    "cache": "what was stored and loaded, and why something was not",
    "perf_hints": "what keeps a function from being fast",
}
ROOT: Final = logging.getLogger("stator")
_LOGGERS: Final = {name: ROOT.getChild(name) for name in LOGS}
_reported: Final[set[Any]] = set()
_filters: Final[dict[str, tuple[str, ...]]] = {}  # of which parts of the program a log tells


class About(Protocol):
    """What a record is about: a `Label` or a `Place`."""

    @property
    def file(self) -> str: ...
    @property
    def function(self) -> str: ...


def on(name: str, *about: About, verbose: bool = False) -> bool:
    """Whether anyone reads this log and, with `about`, what it says of one of these.

    It must have been asked for: a program that shows its own messages (`logging.basicConfig(
    level=logging.INFO)`) has not, though levels are inherited from the root.
    """
    logger = _LOGGERS[name]
    if logger.level == ROOT.level == logging.NOTSET:
        return False
    if not logger.isEnabledFor(logging.DEBUG if verbose else logging.INFO):
        return False
    return not _filters or not about or _wanted(name, about)


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


# ---------------------------------------------------------------------- of which part


def _wanted(name: str, about: tuple[About, ...]) -> bool:
    patterns = _filters.get(name)
    return patterns is None or any(
        fnmatchcase(_path(each), f"*.{pattern}{rest}")
        for each in about
        for pattern in patterns
        for rest in ("", ".*")
    )


def _path(about: About) -> str:
    """As in `….site-packages.transformers.models.bert.modeling_bert.BertLayer.forward`."""
    file = PurePath(about.file).with_suffix("")
    return ".".join(["", *(part.strip("/\\:") for part in file.parts), about.function])


# ---------------------------------------------------------------------- switches


def set_logs(names: str = "", /, *, out: str | None = None, **switches: bool | int) -> None:
    """Switches logs on; those that are not named are switched off.

    `set_logs("graph_breaks,+guards")` or `set_logs(graph_breaks=True, guards=logging.DEBUG)`: a
    `+`, or the level DEBUG, asks for more. `guards:models.*` tells of some modules, classes or
    functions only. They go to standard error or, with `out`, are appended to a file. `STATOR_LOGS`
    and `STATOR_LOGS_OUT` say the same when the program starts.
    """
    levels, filters = _parsed(names)
    for name, switch in switches.items():
        if switch is not False:
            levels[name] = logging.INFO if switch is True else int(switch)
    if unknown := sorted(levels.keys() - LOGS.keys()):
        raise ValueError(_no_log(unknown[0]))
    _switch(levels, filters, out)


def _no_log(name: str) -> str:
    return f"stator has no log {name!r}. There are: {', '.join(LOGS)}"


def _switch(levels: Mapping[str, int], filters: Mapping[str, list[str]], out: str | None) -> None:
    direct(ROOT, bool(levels), out)  # which may fail, and then nothing is changed
    forget()
    _filters.clear()
    _filters.update({name: tuple(patterns) for name, patterns in filters.items()})
    for name, logger in _LOGGERS.items():
        logger.setLevel(levels.get(name, logging.NOTSET))


def _parsed(names: str) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Levels by name, and patterns for those that are asked for of a part of the program only."""
    levels: dict[str, int] = {}
    filters: dict[str, list[str]] = {}
    for name, pattern, level in _asked(names):
        if pattern and (name not in levels or name in filters):
            filters.setdefault(name, []).append(pattern)
        else:
            filters.pop(name, None)  # of all
        levels[name] = min(level, levels.get(name, level))
    return levels, filters


def _asked(names: str) -> Iterator[tuple[str, str, int]]:
    for each in names.split(","):
        if stripped := each.strip():
            verbose = stripped.startswith("+")
            name, _, pattern = stripped.removeprefix("+").partition(":")
            yield name.strip(), pattern.strip(), logging.DEBUG if verbose else logging.INFO


# What torch calls more of a log.
_TORCHS: Final = {"graph_code_verbose": "+graph_code", "recompiles_verbose": "+recompiles"}


def of_torch(names: str) -> str:
    """Of the names in `TORCH_LOGS`, those that stator has, in its own words."""
    asked = (_TORCHS.get(name.strip(), name.strip()) for name in names.split(","))
    return ",".join(name for name in asked if name.removeprefix("+") in LOGS)


def read_environment() -> None:
    """Switches on what `STATOR_LOGS` names or, if it is not set, what `TORCH_LOGS` does.

    A name that does not exist is a warning: the others are on. torch checks those in `TORCH_LOGS`
    itself; the ones that only torch knows are not for us.
    """
    out = os.environ.get("STATOR_LOGS_OUT") or None
    names = os.environ.get("STATOR_LOGS")
    if names is None:
        names = of_torch(os.environ.get("TORCH_LOGS", ""))
    known = []
    for each in names.split(","):
        for name, _, _ in _asked(each):
            if name in LOGS:
                known.append(each)
            else:
                warnings.warn(f"STATOR_LOGS: {_no_log(name)}", stacklevel=2)
    if known:
        try:
            set_logs(",".join(known), out=out)
        except OSError as error:  # must not keep the program from running
            warnings.warn(f"STATOR_LOGS: {error}; the logs go to standard error", stacklevel=2)
            set_logs(",".join(known))


read_environment()
