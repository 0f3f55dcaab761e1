"""The few settings of stator.

    stator.config.recompile_limit = 4             # from now on, for the whole process
    with stator.config.patch(recompile_limit=4):  # or for a while
        ...
    @stator.config.patch(suppress_errors=True)    # or during each call of a function
    def train(): ...

A name that is not a setting and a value of the wrong type are refused.
"""

import os
import sys
from contextlib import ContextDecorator
from types import ModuleType, TracebackType
from typing import Any, Final

recompile_limit: int = 8
"""How many variants of one function may be compiled, per bucket; further calls run eagerly."""

accumulated_recompile_limit: int = 256
"""The same, summed over all buckets of the function."""

fail_on_recompile_limit_hit: bool = False
"""At a limit, raise `RecompileLimitError` instead; `fullgraph=True` does that in any case."""

error_on_recompile: bool = False
"""Raise `RecompileError` where a second variant would be compiled."""

strict: bool = os.environ.get("STATOR_STRICT", "0") != "0"
"""Raise `InternalError` where stator, or torch while it compiles, fails, as `fullgraph=True` does.
Else the program goes on, split there or eagerly, with a warning that asks for a report."""

suppress_errors: bool = False
"""Run eagerly, with a warning, where a backend of yours fails, too, and whatever `strict` says.
Never with `fullgraph=True`."""

trace_budget: int = 60
"""Seconds of the processor's time for which a loop is unrolled into one graph, ten times as many
with `fullgraph=True`. Then the program is split there, and one iteration is a graph of its own."""

inductor_shortcuts: bool = True
"""Call Inductor's code directly, and without its own asserts, where that is provably the same."""

donated_buffers: bool = False
"""Let a compiled backward reuse the memory of what was kept for it. Inductor needs less memory,
but `backward(retain_graph=True)`, and `create_graph`, through such a graph may be errors."""

torch_kernels: bool = True
"""Run a graph by its own operators, as eager does, where Inductor has nothing to fuse, or where
nearly all of the time is spent in recurrent layers or the like: it would be compiled for nothing.
Loops that call a recurrent layer step by step run so until compiling them pays. Only with the
default mode, on the CPU."""

dynamic_sources: str = ""
"""Arguments, attributes … whose sizes, or value, are left open from the start: names as guards show
them, or patterns, separated by commas (`x, self.cache*`)."""

side_effect_policy: str = "silent"
"""What happens where a program that is compiled changes objects that existed before the call:
`silent`, `info` (the log `side_effects`), `warn`, each once per line, or `error`."""

allow_side_effects_under_nested_compile_region: bool = False
"""Regions (`nested_compile_region`) may change what is outside of them: such a region is captured
at each call, where otherwise that is an error."""

check_ranks: bool = True
"""Where there are several processes, have them compare what they captured before a graph with new
collectives runs: a difference is `RankDivergence` on each rank, where they would else wait for each
other (docs/distributed.md)."""

rank_timeout: int = 300
"""Seconds for which a rank waits for another that lives, does not compile, and does not say why it
does not come. One that has died or stands elsewhere is noticed much earlier."""

cache: bool = os.environ.get("STATOR_CACHE", "0") != "0"
"""Keep what is compiled, and load it in the next process that calls the same function in the same
world (docs/cache.md)."""

cache_dir: str = os.environ.get("STATOR_CACHE_DIR", "")
"""The folder for that; the default is `stator` in the user's folder for caches."""

cache_size: int = 4096
"""How many megabytes may be kept; what was used longest ago is thrown away."""

artefacts: str = os.environ.get("STATOR_ARTEFACTS", "")
"""A folder for generated code, as files; without one, it is known to `linecache` only."""

progress: bool = os.environ.get("STATOR_PROGRESS", "1") != "0"
"""Show on a terminal what takes long to compile."""

_CHOICES: Final = {"side_effect_policy": ("silent", "info", "warn", "error")}
_DEFAULTS: Final = {
    name: value
    for name, value in list(globals().items())
    if not name.startswith("_") and type(value) in (int, bool, str)
}


def _checked(name: str, value: Any) -> Any:
    if name not in _DEFAULTS:
        raise AttributeError(
            f"stator.config has no setting {name!r}. There are: {', '.join(_DEFAULTS)}"
        )
    wanted = type(_DEFAULTS[name])
    if type(value) is not wanted:
        raise TypeError(f"{name} must be of type {wanted.__name__}, not {type(value).__name__}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
    return value


def settings() -> dict[str, Any]:
    """All settings, as they are now."""
    return {name: globals()[name] for name in _DEFAULTS}


class patch(ContextDecorator):  # noqa: N801 - used like a function
    """Settings for the duration of a `with` block or of each call of a function."""

    def __init__(self, **changes: Any) -> None:
        self._changes = {name: _checked(name, value) for name, value in changes.items()}
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append({name: globals()[name] for name in self._changes})
        globals().update(self._changes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        globals().update(self._before.pop())


class _Settings(ModuleType):
    """This module's class: assignments are checked."""

    def __setattr__(self, name: str, value: Any) -> None:
        dunder = name.startswith("__")  # the import system sets those
        super().__setattr__(name, value if dunder else _checked(name, value))

    def __delattr__(self, name: str) -> None:
        raise AttributeError("settings of stator can't be deleted")


sys.modules[__name__].__class__ = _Settings
