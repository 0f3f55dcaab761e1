"""`stator.install()` and `stator.uninstall()`: torch.compile is stator's, and is torch's again.

In: nothing, or what is to hold for everything that is compiled. Out: attributes of torch, of
torch.compiler and, if the program has loaded it, of torch._dynamo, which hold functions of stator
until `uninstall`. What stator understands as it is stays torch's: `mark_dynamic` and its like,
`graph_break`, `is_compiling`, `torch._dynamo.disable`, the registry of backends, `export`.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CellType, ModuleType
from typing import Any, Final

import torch
from torch import nn

from stator import api
from stator.backends import check
from stator.dropin import compiling, counting, exceptions, modules
from stator.dropin.arrival import Arrivals
from stator.dropin.compiling import Backend, Forced, for_programs, wrapped_by
from stator.dropin.explaining import explain
from stator.dropin.modules import OptimizedModule
from stator.dropin.patches import Patches
from stator.dropin.settings import Settings
from stator.dropin.telling import for_both
from stator.torchlib.tracers import logging

_DYNAMO: Final = "torch._dynamo"
_SHAPES: Final = "torch.fx.experimental.symbolic_shapes"


def install(*, backend: Backend | None = None, fullgraph: bool = False) -> None:
    """From now on `torch.compile`, `torch.compiler` and `torch._dynamo` mean stator.

    What the program has compiled before stays as it is. `backend` and `fullgraph=True` hold for all
    that is compiled, whatever the program says. For each `install` there is one `uninstall`.
    """
    if backend is not None:
        check(backend)
    with _lock:
        compiling.forced.append(Forced(backend, fullgraph))
        if len(compiling.forced) == 1:
            _state.append(_Installed())


def uninstall() -> None:
    """Everything is torch's again, as it was before the first `install`; nothing, without one.

    What was compiled in between stays compiled by stator.
    """
    with _lock:
        if compiling.forced:
            compiling.forced.pop()
            if not compiling.forced:
                _state.pop().remove()


class _Installed:
    """What was changed."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._settings = Settings()
        self._arrivals = Arrivals()
        self._replace(torch, "compile", compiling.compile)
        self._replace(nn.Module, "compile", compiling.compile_in_place)
        for name, ours in _COMPILER.items():
            self._replace(torch.compiler, name, ours)
        if logging is not None:
            cell = _innermost(logging.set_logs)
            both = for_both(logging.set_logs if cell is None else cell.cell_contents)
            for owner in (logging, logging._internal):
                self._replace(owner, "set_logs", both)
        counting.start()
        for table in (exceptions.DYNAMOS, exceptions.SHAPES):
            exceptions.expect(table, self._patches)
        self._arrivals.expect(_DYNAMO, self._dynamo)
        self._arrivals.expect(_SHAPES, self._shapes)

    def remove(self) -> None:
        self._arrivals.stop()
        counting.stop()
        exceptions.forget()
        self._patches.undo()
        self._settings.restore()
        compiling.set_default_backend(None)

    def _replace(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:  # torch has it not, in this version
            return
        cell = _innermost(original)
        current = partial(getattr, owner, name)
        if cell is None:
            self._patches.set(owner, name, for_programs(original, ours, current))
        else:
            self._patches.fill(cell, for_programs(cell.cell_contents, ours, current))

    def _dynamo(self, module: ModuleType) -> None:
        """torch._dynamo has been loaded, by the program or by another part of torch."""
        frames: Any = sys.modules[f"{_DYNAMO}.eval_frame"]
        for owner, names in ((module, _ANYWHERE), (frames, _FRAMES)):
            for name in names:
                self._replace(owner, name, _DYNAMOS[name])
        # Compiled programs use it themselves: it is not another function for torch.
        self._patches.set(module, "error_on_graph_break", api.error_on_graph_break)
        modules.follow(frames.OptimizedModule)
        both = _either_module(frames.OptimizedModule)
        self._patches.set(frames, "OptimizedModule", both)
        self._patches.set(module, "OptimizedModule", both)
        self._settings.follow(sys.modules[f"{_DYNAMO}.config"], self._patches)
        exceptions.follow(exceptions.DYNAMOS, sys.modules[f"{_DYNAMO}.exc"], self._patches)

    def _shapes(self, module: ModuleType) -> None:
        """torch's symbolic sizes have been loaded."""
        exceptions.follow(exceptions.SHAPES, module, self._patches)


def _innermost(function: Any) -> CellType | None:
    """Where torch's own function is, if a library has put a wrapper of its own around it."""
    found = None
    for wrapper in wrapped_by(function):
        inner = wrapper.__dict__.get("__wrapped__")
        cells = wrapper.__closure__ or ()
        held = next((cell for cell in cells if inner is not None and _content(cell) is inner), None)
        if held is None:
            return found
        found = held
    return found


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _reset() -> None:
    """`torch.compiler.reset` and `torch._dynamo.reset`."""
    api.reset()
    dynamo: Any = sys.modules.get(_DYNAMO)
    original = getattr(getattr(dynamo, "reset", None), "__wrapped__", None)
    if original is not None:
        original()  # what torch itself has compiled; CUDA graphs


def _set_stance(
    stance: str = "default",
    *,
    skip_guard_eval_unsafe: bool = False,
    force_backend: Backend | None = None,
) -> Any:
    """`torch.compiler.set_stance`. Guards are always checked."""
    return api.set_stance(stance, force_backend=force_backend)


class _EitherModule(type(nn.Module)):  # type: ignore[misc]
    """The class of a class that takes our wrappers for its instances, and torch's."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, OptimizedModule | cls.__bases__[0])


def _either_module(original: type) -> type:
    """torch's own class of compiled modules, for programs that ask whether a module is one."""
    return _EitherModule(original.__name__, (original,), {"__module__": original.__module__})


_COMPILER: Final[dict[str, Callable[..., Any]]] = {
    "allow_in_graph": compiling.allow_in_graph,
    "assume_constant_result": api.assume_constant_result,
    "compile": compiling.compile,
    "disable": compiling.disable,
    "get_default_backend": compiling.get_default_backend,
    "load_compiled_function": compiling.load_compiled_function,
    "reset": _reset,
    "set_default_backend": compiling.set_default_backend,
    "set_stance": _set_stance,
    "substitute_in_graph": compiling.substitute_in_graph,
}
_DYNAMOS: Final[dict[str, Callable[..., Any]]] = {
    "allow_in_graph": compiling.allow_in_graph,
    "assume_constant_result": api.assume_constant_result,
    "explain": explain,
    "innermost_fn": compiling.innermost_fn,
    "optimize": compiling.optimize,
    "optimize_assert": compiling.optimize_assert,
    "reset": _reset,
    "set_stance": _set_stance,
    "substitute_in_graph": compiling.substitute_in_graph,
}
_ANYWHERE: Final = tuple(_DYNAMOS)
_FRAMES: Final = ("explain", "innermost_fn", "optimize", "optimize_assert")

_lock: Final = threading.RLock()
_state: Final[list[_Installed]] = []
