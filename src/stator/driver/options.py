"""What the user asked for when compiling a function.

Stage: driver. In: the arguments of `stator.compile`. Out: `Options`, and the key by which wrappers
of one function share what was compiled: equal keys mean that either wrapper would compile the same.
"""

import logging
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, Final

from stator.backends import check
from stator.backends.inductor_settings import check_settings
from stator.backends.registry import announce, takes_settings

_LOG: Final = logging.getLogger("stator")


@dataclass(frozen=True, eq=False)
class Options:
    """The arguments of one `stator.compile`, checked."""

    backend: str | Callable[..., Any] = "inductor"
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    recompile_limit: int | None = None
    isolate: bool = False
    regions: str | None = None

    @property
    def for_backend(self) -> dict[str, Any]:
        """Keyword arguments for the backend, as torch.compile gives them."""
        given: dict[str, Any] = {}
        if self.mode is not None and self.mode != "default":
            given["mode"] = self.mode
        if self.options:
            given["options"] = dict(self.options)
        return given

    @property
    def inductor(self) -> bool:
        return self.backend == "inductor"

    @property
    def lasting(self) -> bool:
        """Whether the backend lives as long as the process: it has a name, or a module has it."""
        backend = self.backend
        if type(backend) is not FunctionType:
            return isinstance(backend, str)
        module = sys.modules.get(backend.__module__)
        return module is not None and module.__dict__.get(backend.__qualname__) is backend

    def key(self) -> Hashable:
        """Equal for wrappers that may share entries.

        The backend counts by identity; whoever keeps something under the key keeps the backend.
        """
        backend = self.backend if isinstance(self.backend, str) else _identity(self.backend)
        options = tuple(sorted((name, _frozen(value)) for name, value in self.options.items()))
        return (backend, self.fullgraph, self.dynamic, self.mode, options, *self._rest)

    @property
    def _rest(self) -> tuple[Hashable, ...]:
        return self.recompile_limit, self.regions


def _identity(backend: Any) -> Hashable:
    """A method is bound anew each time it is asked for: what it is bound to is what counts."""
    if type(backend) is MethodType:
        return id(backend.__self__), id(backend.__func__)
    return id(backend)


def _frozen(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


def checked(
    *,
    backend: str | Callable[..., Any],
    fullgraph: bool,
    dynamic: bool | None,
    mode: str | None,
    options: Mapping[str, Any] | None,
    name: str | None,
    recompile_limit: int | None,
    isolate: bool,
    regions: str | None = None,
) -> Options:
    """The options, if they make sense; what doesn't is refused before anything is compiled."""
    if mode is not None and options is not None:
        raise ValueError(
            f"give a mode or options, not both (mode={mode!r}, options={options!r}): a mode stands "
            f"for options of the backend"
        )
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"mode must be a string, not {type(mode).__name__}")
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping, not {type(options).__name__}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic must be True, False or None, not {dynamic!r}")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit must be a positive number, not {recompile_limit!r}")
    if regions not in (None, "auto"):
        raise ValueError(f'regions must be "auto" or None, not {regions!r}')
    check(backend)
    if backend == "inductor":
        check_settings(mode, options)
    elif not takes_settings(backend):
        if mode not in (None, "default") or options:
            told = f"mode={mode!r}" if options is None else f"options={dict(options)!r}"
            _LOG.warning(
                "the backend %r takes no mode and no options: %s is ignored", backend, told
            )
        mode, options = None, None
    announce(backend)
    return Options(
        *(backend, bool(fullgraph), dynamic, mode, dict(options or {}), name, recompile_limit),
        isolate=isolate,
        regions=regions,
    )
