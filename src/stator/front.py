"""What users call first: `compile`, in all its forms, `load` and `load_compiled_function`.

In: what the user writes. Out: compiled functions and modules (driver). What the cache has for them
needs nothing else of stator, so this loads neither the tracer nor the compiler; `api.py` does.
"""

import functools
import os
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import IO, Any, Literal, TypeVar, overload

from torch import nn

from stator._native._core import CompiledFunction
from stator.driver import ahead, loading
from stator.driver.modules import Compiling, copied, unwrapped, wrap
from stator.driver.options import Options, checked
from stator.driver.starting import compiled_function
from stator.torchlib.versions import warn_if_untested

warn_if_untested()

Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"]
"""What Inductor calls its modes, for editors and type checkers. Others' may be any string."""
F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: Mode | None = ...,
    options: Mapping[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    regions: Literal["auto"] | None = ...,
) -> F: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: Mode | None = ...,
    options: Mapping[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    regions: Literal["auto"] | None = ...,
) -> Callable[[F], F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: Mode | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    regions: Literal["auto"] | None = None,
) -> Any:
    """Compiles a function, a method or a module when it is first called. Also a decorator.

    `fullgraph`: one graph or an error that says why not. `backend`: a name (`list_backends()`) or a
    callable `(GraphModule, example inputs) -> callable`. `mode` or `options` go to the backend.
    `name` is for messages. `disable`: returns the model as it is. `recompile_limit` replaces
    `config.recompile_limit`. `isolate_recompiles`: what is compiled here is for this wrapper only.
    `regions="auto"`: modules that are repeated are traced and compiled once (docs/regions.md).
    """
    chosen = checked(
        backend=backend,
        fullgraph=fullgraph,
        dynamic=dynamic,
        mode=mode,
        options=options,
        name=name,
        recompile_limit=recompile_limit,
        isolate=isolate_recompiles,
        regions=regions,
    )
    if model is None:
        return lambda target: target if disable else _compiled(target, chosen)
    return model if disable else _compiled(model, chosen)


def load(path: str | os.PathLike[str], model: F, **options: Any) -> F:
    """Compiles a function or a module, with what a file has for it.

    The options are those it was compiled with, unless others are given. Parameters are those of the
    model. What the file does not have is compiled when it is needed; a file that is damaged, that
    others can write to, or that was made in another world is a `CacheError`.
    """
    made: F = compile(model, **{**loading.from_file(path), **options})
    return made


def load_compiled_function(
    file: str | os.PathLike[str] | IO[bytes],
    model: Callable[..., Any] | None = None,
    *,
    f_globals: Mapping[str, Any] | None = None,
) -> Any:
    """What `compiled.aot_compile(...)` has returned, from the file in which it was saved.

    `model` is the function, method or module it is for. Without one, the function is found by its
    module and name, or in `f_globals`. What is returned compiles nothing: where a guard fails, it
    raises `RecompileError`. Files are refused as by `load`.
    """
    return ahead.from_file(file, model, f_globals)


def _compiled(target: Any, options: Options) -> Any:
    """Something to compile, by what it is."""
    if isinstance(target, nn.Module):
        return wrap(unwrapped(target), Compiling(options))
    made = made_of(target, "compile", lambda function: compiled_function(function, options))
    if isinstance(made, MethodType) and isinstance(made.__func__, CompiledFunction):
        made.__func__.__dict__["aot_compile"] = ahead.OfMethod(made.__func__, made.__self__)
    return made


def made_of(target: Any, who: str, make: Callable[[FunctionType], CompiledFunction]) -> Any:
    """What is no module, with the function in it compiled."""
    if isinstance(target, CompiledFunction):
        target = target.__wrapped__
    if isinstance(target, FunctionType):
        return make(target)
    if isinstance(target, MethodType):
        return MethodType(made_of(target.__func__, who, make), target.__self__)
    if isinstance(target, staticmethod | classmethod):
        return type(target)(made_of(target.__func__, who, make))
    if isinstance(target, type):
        raise TypeError(
            f"stator.{who}() needs a function, a method or a module, not the class "
            f"{target.__qualname__}: {who} an instance of it, or its methods"
        )
    if not callable(target):
        raise TypeError(
            f"stator.{who}() needs a function, a method or a module, not {kind_of(target)}"
        )
    return make(calling(target))


def calling(target: Callable[..., Any]) -> FunctionType:
    """A Python function that does nothing but call something that is none."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    functools.update_wrapper(call, target)
    assert isinstance(call, FunctionType)
    return copied(call)  # another code object: other callables share nothing with this one


def kind_of(value: object) -> str:
    return f"an object of type {type(value).__qualname__}"
