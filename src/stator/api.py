"""The public entry points: `compile` in all its forms, and what goes with it."""

import weakref
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

import torch

from stator import runtime
from stator.driver import Compiler, Options

F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(model: F, **options: Any) -> F: ...
@overload
def compile(model: None = None, **options: Any) -> Callable[[F], F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Compiles a function, a method or a module; without one, a decorator."""
    if model is None:
        return lambda target: compile(
            target,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
            isolate_recompiles=isolate_recompiles,
        )
    if disable:
        return model
    chosen = Options(backend=backend, fullgraph=fullgraph, name=name)
    if isinstance(model, MethodType):
        return MethodType(_function(model.__func__, chosen, isolate_recompiles), model.__self__)
    if isinstance(model, torch.nn.Module):
        function = _function(_call_module, chosen, True)
        return lambda *args, **kwargs: function(model, *args, **kwargs)
    return _function(model, chosen, isolate_recompiles)


def _call_module(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


def _function(function: Any, options: Options, isolate: bool) -> Any:
    if not isinstance(function, FunctionType):
        raise TypeError(f"a function, a method or a module is needed, not {type(function).__name__}")
    made = runtime.compiled(function, Compiler(options), name=options.name, isolate=isolate)
    _made.add(made)
    return made


_made: weakref.WeakSet[Any] = weakref.WeakSet()


def reset() -> None:
    """Forgets everything that was compiled."""
    for compiled in list(_made):
        compiled.clear()
