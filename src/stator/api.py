"""The public entry points: `compile` in all its forms, and what is said about single functions.

In: what the user writes. Out: compiled functions and modules (driver), marks (capture.marks).
"""

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeVar, overload

from torch import nn

from stator._native._core import CompiledFunction
from stator.capture.calls import marks
from stator.capture.calls.controls import error_on_graph_break, invoke_region
from stator.capture.calls.leaf_functions import leaf_of
from stator.capture.calls.marks import Kind, Mark
from stator.capture.iterators import given_iterators
from stator.capture.numbers.dimensions import (
    MARKING,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
)
from stator.capture.texts.showing import debug_grad_log, install_debug_prints
from stator.capture.texts.showing import print_ as print
from stator.diagnostics import logs
from stator.diagnostics.explanation import Explanation
from stator.diagnostics.logs import set_logs
from stator.distributed import replicas, sharded
from stator.driver import announcements, saving
from stator.driver.compiler import forget
from stator.driver.explain import Explaining
from stator.driver.modules import Compiling, called, copied, unwrapped, wrap
from stator.driver.options import Options, checked
from stator.driver.stance import set_stance
from stator.driver.tally import counters
from stator.effects import instruction
from stator.front import calling, compile, kind_of, load, load_compiled_function, made_of
from stator.store.reasons import CacheError

__all__ = [
    "CacheError",
    "Explanation",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compile_module_",
    "counters",
    "debug_grad_log",
    "disable",
    "error_on_graph_break",
    "explain",
    "graph_break",
    "install_debug_prints",
    "is_compiling",
    "leaf_function",
    "load",
    "load_compiled_function",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nested_compile_region",
    "nonstrict_trace",
    "print",
    "reset",
    "reset_code",
    "save",
    "set_logs",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
]

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=nn.Module)

# ---------------------------------------------------------------------- compile


def save(path: str | os.PathLike[str], compiled: Callable[..., Any]) -> list[str]:
    """Writes what was compiled for a function or a module into one file (docs/cache.md).

    `compiled` is what `compile` has returned; it has to have been called. Answers why some of it is
    not in the file, if so: that is compiled again where the file is loaded.
    """
    return saving.save(path, compiled)


def compile_module_(module: M, **options: Any) -> M:
    """Compiles a module in place, as `module.compile()` does; takes the options of `compile`."""
    if not isinstance(module, nn.Module):
        raise TypeError(f"compile_module_() needs a module, not {kind_of(module)}")
    if not options.pop("disable", False):
        isolate = options.pop("isolate_recompiles", False)
        chosen = _chosen("compile_module_", options, isolate)
        Compiling(chosen).in_place(unwrapped(module))
    return module


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """Compiles a function, a method or a module anew, and tells what became of each call.

    `explain(fn)(*args)` makes the call, with all it does, and answers with an `Explanation`: its
    result, the graphs, where and why the program was split, guards, times. What other wrappers have
    compiled is neither used nor changed. Takes the options of `compile`; the backend is "eager",
    unless another is named.
    """
    explaining = Explaining(_chosen("explain", {"backend": "eager", **options}, isolate=True))
    if isinstance(fn, nn.Module):
        module = unwrapped(fn)
        function, label = called(module, "__call__", options.get("name"))
        call: Any = MethodType(explaining.compiled(function, label), module)
    else:
        call = made_of(fn, "explain", explaining.compiled)
        if isinstance(call, staticmethod | classmethod):
            raise TypeError("stator.explain() needs a function that can be called")
    return explaining.explained(call)


_DEFAULTS: Final[dict[str, Any]] = {
    name: parameter.default
    for name, parameter in inspect.signature(compile).parameters.items()
    if name not in ("model", "disable", "isolate_recompiles")
}


def _chosen(who: str, options: Mapping[str, Any], isolate: bool) -> Options:
    """Options that were given by keyword."""
    if unknown := options.keys() - _DEFAULTS.keys():
        raise TypeError(f"{who}() has no option {sorted(unknown)[0]!r}")
    return checked(**{**_DEFAULTS, **options}, isolate=isolate)


def reset() -> None:
    """Forgets everything that was compiled; compiled functions compile again when called."""
    forget()
    given_iterators.forget()
    logs.forget()
    announcements.forgotten()


def reset_code(fn: Any) -> None:
    """Forgets what was compiled for one function, method or module, with all that counts for it.

    That is for its code: all wrappers of it, whatever their options, and what is behind its graph
    breaks. What other functions have inlined of it stays. Takes a code object, too.
    """
    for code in _codes(fn):
        forget(code)
        given_iterators.forget(code)


def _codes(fn: Any) -> list[CodeType]:
    """The code objects that are compiled for something."""
    if isinstance(fn, CodeType):
        return [fn]
    if isinstance(fn, nn.Module):
        module = unwrapped(fn)
        return [called(module, name)[0].__code__ for name in ("__call__", "_call_impl")]
    if isinstance(fn, CompiledFunction):
        fn = fn.__wrapped__
    if isinstance(fn, FunctionType):
        return [fn.__code__]
    if isinstance(fn, MethodType | staticmethod | classmethod):
        return _codes(fn.__func__)
    raise TypeError(
        f"stator.reset_code() needs a function, a method or a module, not {kind_of(fn)}"
    )


# ---------------------------------------------------------------------- marks


@overload
def disable(fn: F, recursive: bool = True, reason: str | None = None) -> F: ...
@overload
def disable(
    fn: None = None, recursive: bool = True, reason: str | None = None
) -> Callable[[F], F]: ...
def disable(fn: Any = None, recursive: bool = True, reason: str | None = None) -> Any:
    """A function (method, module) that is never traced: compiled code calls it as it is.

    The function given is left as it was; use what is returned. Also a decorator. What it calls runs
    as it is, too, but for functions that are compiled by themselves: `recursive`, which torch has,
    makes no difference, since nothing is captured that nobody has asked for.
    """
    if fn is None:
        return lambda target: disable(target, recursive, reason)
    mark = Mark(Kind.DISABLE, reason or "", recursive)
    if isinstance(fn, nn.Module):
        module = unwrapped(fn)
        return wrap(module, _Disabling(mark))
    if isinstance(fn, CompiledFunction):
        fn = fn.__wrapped__
    if isinstance(fn, MethodType):
        return MethodType(_disabled(fn.__func__, mark), fn.__self__)
    if isinstance(fn, staticmethod | classmethod):
        return type(fn)(_disabled(fn.__func__, mark))
    if isinstance(fn, type) or not callable(fn):
        what = f"the class {fn.__qualname__}" if isinstance(fn, type) else kind_of(fn)
        raise TypeError(f"stator.disable() needs a function, a method or a module, not {what}")
    return _disabled(fn, mark)


class _Disabling:
    """Makes the call of a disabled module."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark

    def __call__(self, module: nn.Module, /) -> Callable[..., Any]:
        made = _disabled(type(module).__call__, self._mark)
        made.__qualname__ = type(module).__qualname__  # the user's name for it, in messages
        return MethodType(made, module)


def _disabled(fn: Any, mark: Mark) -> Any:
    """A marked copy, so that no frame of ours is between the caller's and the function's."""
    if isinstance(fn, CompiledFunction):
        fn = fn.__wrapped__
    made = copied(fn if isinstance(fn, FunctionType) else calling(fn))
    made.__dict__.setdefault("__wrapped__", fn)
    marks.put(made, mark)
    return made


def allow_in_graph(fn: F) -> F:
    """Calls of this function become one node of the graph: it is not traced into.

    It must do with fake tensors what it does with real ones, and change nothing but its result.
    """
    return _marked(fn, Mark(Kind.ALLOW), "allow_in_graph")


def nonstrict_trace(fn: F) -> F:
    """Calls of this function never end the graph.

    It is captured like any other. Where that is not possible, the call is one node: then it must do
    with fake tensors what it does with real ones, tensors that it has from elsewhere are constants,
    and what it changes besides is not followed. Arguments and results are trees of tensors,
    constants and classes that are registered with pytree; arguments may also be modules.
    """
    return _marked(fn, Mark(Kind.NONSTRICT), "nonstrict_trace")


def leaf_function(fn: Any = None, *, mutates_args: Collection[str] | None = None) -> Any:
    """Decorator: a function whose Python code runs whenever the graph does, as one node of it.

    `@fn.register_fake` says what it returns, on tensors without values; `register_multi_grad_hook`
    what is called with the gradients of its tensors, once they are computed. One that changes its
    arguments (`mutates_args`) splits the graph.
    """
    if fn is None:
        return functools.partial(leaf_function, mutates_args=mutates_args)
    return leaf_of(fn, frozenset(mutates_args or ()))


def assume_constant_result(fn: F) -> F:
    """This function is called while tracing, and its result is a constant of the graph.

    Nothing guards the assumption.
    """
    return _marked(fn, Mark(Kind.CONSTANT), "assume_constant_result")


def substitute_in_graph(
    original: Callable[..., Any], *, skip_signature_check: bool = False
) -> Callable[[F], F]:
    """Decorator: compiled code evaluates the decorated function in place of `original`."""

    def decorate(substitute: F) -> F:
        if not isinstance(substitute, FunctionType):
            raise TypeError(f"the substitute must be a Python function, not {kind_of(substitute)}")
        if not skip_signature_check:
            _check_signatures(original, substitute)
        _marked(original, Mark(Kind.SUBSTITUTE, substitute=substitute), "substitute_in_graph")
        return substitute

    return decorate


def _check_signatures(original: Any, substitute: Any) -> None:
    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):
        return  # C functions need not have one
    given = inspect.signature(substitute)
    if _shape(wanted) != _shape(given):
        raise TypeError(
            f"the substitute takes {given}, the original takes {wanted}: make them alike, or say "
            f"skip_signature_check=True"
        )


def _shape(signature: inspect.Signature) -> list[tuple[Any, ...]]:
    """What matters to callers; positional-only parameters may have any name."""
    return [
        (
            None if p.kind is p.POSITIONAL_ONLY else p.name,
            p.kind,
            p.default is p.empty,
        )
        for p in signature.parameters.values()
    ]


def _marked(fn: F, mark: Mark, who: str) -> F:
    target: Any = fn
    while isinstance(target, MethodType | CompiledFunction):
        target = target.__func__ if isinstance(target, MethodType) else target.__wrapped__
    if not callable(target) or isinstance(target, nn.Module):
        raise TypeError(f"stator.{who}() needs a function, not {kind_of(fn)}")
    marks.put(target, mark)
    return fn


def graph_break(msg: str = "") -> None:
    """Ends the graph here; nothing outside of compiled code."""


def skip_frame(msg: str = "") -> None:
    """The call that is being compiled runs as it is, from its beginning; nothing elsewhere.

    That holds for calls like this one: another path of the function is captured all the same.
    """


def is_compiling() -> bool:
    """Whether the caller is being traced; False in code that runs as it is."""
    return False


def _yes() -> bool:
    return True


marks.put(graph_break, Mark(Kind.BREAK))
instruction.NOTHING.add(id(graph_break))
marks.put(skip_frame, Mark(Kind.SKIP))
for _forgetting in (counters, reset, reset_code):
    marks.put(_forgetting, Mark(Kind.DISABLE, "it is about the whole process"))
for _making in (
    compile,
    load,
    compile_module_,
    explain,
    disable,
    _disabled,
    _marked,
    install_debug_prints,
):
    marks.put(_making, Mark(Kind.DISABLE, "it says how functions are compiled"))
for _marking, _instead in MARKING.items():
    marks.put(_marking, Mark(Kind.SUBSTITUTE, substitute=_instead))
_PARTS: Final[tuple[Any, ...]] = (replicas.before, replicas.behind, replicas.failed)
for _part in _PARTS:
    marks.put(_part, Mark(Kind.DISABLE, "DistributedDataParallel talks to other processes"))
_HOOKS: Final[tuple[Any, ...]] = (sharded.before, sharded.behind)
for _part in _HOOKS:
    marks.put(_part, Mark(Kind.DISABLE, "FSDP talks to other processes"))
if replicas.REPLICA is not None:
    marks.put(replicas.REPLICA.forward, Mark(Kind.SUBSTITUTE, substitute=replicas.forward))
marks.put(is_compiling, Mark(Kind.SUBSTITUTE, substitute=_yes))


# ---------------------------------------------------------------------- regions


def nested_compile_region(
    fn: Any = None,
    *,
    options: Any = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable[..., int] | None = None,
) -> Any:
    """Marks a function that is called many times: it is traced once, and compiled once.

    In a compiled program, each call for which the same holds (shapes, constants, attributes, what
    else it reads) is a call of one graph; docs/regions.md. It must change nothing outside of it.
    More than `max_reuse_entries` different uses in one program are an error. `reuse_hash_fn` takes
    the same arguments; uses for which it answers different ints are different. `options` is
    torch's, for backends. In eager code the function is called as it is. Also a decorator; torch's
    `nested_compile_region` means the same.
    """

    def mark(function: Any) -> Any:
        @functools.wraps(function)
        def region(*args: Any, **kwargs: Any) -> Any:
            return invoke_region(function, *args, **kwargs)

        function.__marked_compile_region_config__ = options
        function.__marked_compile_region_max_reuse_entries__ = max_reuse_entries
        function.__marked_compile_region_reuse_hash_fn__ = reuse_hash_fn
        return region

    return mark if fn is None else mark(fn)
