"""The backends by name.

A backend is a callable `(GraphModule, example inputs) -> callable`. Built-in ones and those of
installed packages are loaded when they are first looked up.
"""

import difflib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias, overload

from stator.torchlib import inductor as torch_inductor

from .errors import UnknownBackendError

Compiled: TypeAlias = Callable[..., Any]
Backend: TypeAlias = Callable[..., Compiled]

ENTRY_POINTS: Final = "torch_dynamo_backends"

# name -> (module in this package, function)
_BUILT_IN: Final[dict[str, tuple[str, str]]] = {
    "aot_eager": ("aot", "aot_eager"),
    "cudagraphs": ("cudagraphs", "cudagraphs"),
    "eager": ("eager", "eager"),
    "inductor": ("inductor", "inductor"),
}
# Those of ours that take a mode or options.
_TAKES_SETTINGS: Final = frozenset({"inductor"})
_registered: Final[dict[str, Backend]] = {}


@overload
def register_backend(backend: Backend, name: str | None = None) -> Backend: ...
@overload
def register_backend(
    backend: None = None, name: str | None = None
) -> Callable[[Backend], Backend]: ...
def register_backend(
    backend: Backend | None = None, name: str | None = None
) -> Backend | Callable[[Backend], Backend]:
    """Makes a backend known by name (its own, if none is given). Also a decorator."""
    if backend is None:
        return partial(_register, name=name)
    return _register(backend, name)


def _register(backend: Backend, name: str | None) -> Backend:
    if not callable(backend):
        raise TypeError(f"a backend must be callable, not {type(backend).__name__}")
    key = name or getattr(backend, "__name__", None)
    if not isinstance(key, str):
        raise TypeError(f"{backend!r} has no name: give one")
    if _registered.get(key, backend) is not backend or key in _BUILT_IN:
        raise ValueError(f"there is a backend named {key!r} already")
    _registered[key] = backend
    return backend


def is_built_in(backend: str | Backend) -> bool:
    """Whether it is one of ours, by name."""
    return isinstance(backend, str) and backend in _BUILT_IN


def takes_settings(backend: str | Backend) -> bool:
    """Whether a mode or options mean something to a backend; others than ours may know what."""
    return not is_built_in(backend) or backend in _TAKES_SETTINGS


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def list_backends() -> list[str]:
    """The names that `lookup` knows."""
    return sorted({*_BUILT_IN, *_registered, *_installed()})


def check(backend: str | Backend) -> None:
    """Refuses what `lookup` would not find; loads nothing."""
    if not isinstance(backend, str):
        if not callable(backend):
            raise TypeError(f"a backend is a name or a callable, not {type(backend).__name__}")
    elif backend not in _registered and backend not in _BUILT_IN and backend not in _installed():
        known = list_backends()
        close = difflib.get_close_matches(backend, known, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownBackendError(
            f"there is no backend named {backend!r}.{hint} Known: {', '.join(known)}"
        )


def lookup(backend: str | Backend) -> Backend:
    """The backend of this name; a callable is a backend already."""
    check(backend)
    if not isinstance(backend, str):
        return backend
    if backend in _registered:
        return _registered[backend]
    if backend in _BUILT_IN:
        module, function = _BUILT_IN[backend]
        found: Backend = getattr(import_module(f"{__package__}.{module}"), function)
        return found
    return _registered.setdefault(backend, _installed()[backend].load())


def announce(backend: str | Backend) -> None:
    """Tells a backend that something will be compiled with it, as torch does from 2.15 on.

    A backend may have a function without arguments, `_dynamo_backend_init`, which prepares it for
    its first graph. Ours have none, so that nothing is loaded here for them.
    """
    if not is_built_in(backend):
        prepare = getattr(lookup(backend), "_dynamo_backend_init", None)
        if prepare is not None:
            prepare()


def load(backend: str | Backend) -> None:
    """Loads what a backend needs.

    Loading Inductor takes seconds, and changes the process (the recursion limit,
    `torch.manual_seed` …): if a trace has looked at that, its guards say so, and it is made again.
    """
    lookup(backend)
    if backend == "inductor":
        torch_inductor.compile_fx()


def backend_name(backend: str | Backend) -> str:
    """What to call a backend in messages."""
    return backend if isinstance(backend, str) else getattr(backend, "__name__", repr(backend))
