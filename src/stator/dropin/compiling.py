"""torch.compile, and what goes with it, on stator.

In: calls as programs write them for torch. Out: what `stator.compile` makes of them, in the form
that torch would return. Calls by torch itself (higher-order operators compile their bodies) are
torch's business, and reach torch's own functions.
"""

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from types import FrameType, FunctionType, MethodType
from typing import IO, Any, Final

import torch
from torch import nn

from stator import api
from stator._native._core import CompiledFunction
from stator.backends import list_backends
from stator.backends.inductor_settings import check_settings
from stator.backends.registry import is_built_in, takes_settings
from stator.capture.calls import marks
from stator.capture.calls.marks import Kind, Mark
from stator.driver.ahead import OfMethod
from stator.driver.modules import copied
from stator.dropin.modules import unwrapped, wrapped
from stator.store.files import MAGIC

Backend = str | Callable[..., Any]


@dataclass(frozen=True)
class Forced:
    """What holds for all that is compiled, whatever the program says."""

    backend: Backend | None = None
    fullgraph: bool = False


forced: Final[list[Forced]] = []
"""One for each `install`; the last one counts."""
_default: Final[dict[str, Backend]] = {}

# By these names torch is told to compile nothing.
_SWITCHES: Final = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


# ---------------------------------------------------------------------- who calls


def for_programs(
    original: Callable[..., Any], ours: Callable[..., Any], current: Callable[[], Any]
) -> Callable[..., Any]:
    """A function that is ours for programs, and the original for torch's own code.

    Libraries wrap torch.compile: `current` is what is called by torch's name. Such wrappers are
    not who asks, and they may hold this function for longer than stator is installed.
    """

    @wraps(original)
    def either(*args: Any, **kwargs: Any) -> Any:
        chosen = ours if forced and not _torch_asks(sys._getframe(1), current()) else original
        return chosen(*args, **kwargs)

    marks.put(either, Mark(Kind.DISABLE, "it drives a compiler"))
    return either


def _torch_asks(frame: FrameType, outermost: Any) -> bool:
    """Whether the call comes from torch's own code."""
    wrappers = [each.__code__ for each in wrapped_by(outermost)]
    while frame.f_code in wrappers and frame.f_back is not None:
        frame = frame.f_back
    return _is_torchs(frame.f_globals)


def wrapped_by(function: Any) -> Iterator[FunctionType]:
    """A function and those that it wraps, from the outside, as far as they are no code of torch."""
    while isinstance(function, FunctionType) and not _is_torchs(function.__globals__):
        yield function
        function = function.__dict__.get("__wrapped__")


def _is_torchs(namespace: Mapping[str, Any]) -> bool:
    name: str = namespace.get("__name__") or ""
    return name.partition(".")[0] == "torch"


# ---------------------------------------------------------------------- compile


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """`torch.compile`; `shapes_spec` is called `dynamic_shapes` since torch 2.15."""
    given = _given(
        backend=backend,
        mode=mode,
        options=options,
        shapes_spec=shapes_spec,
        dynamic_shapes=dynamic_shapes,
        fullgraph=fullgraph,
        dynamic=dynamic,
        name=name,
        disable=disable,
        recompile_limit=recompile_limit,
        isolate_recompiles=isolate_recompiles,
    )
    if model is None:
        api.compile(**given)  # options that make no sense are refused here already
        return partial(_compiled, given)
    return _compiled(given, model)


def compile_in_place(self: nn.Module, **options: Any) -> None:
    """`nn.Module.compile`."""
    api.compile_module_(unwrapped(self), **_given(**options))


def _given(
    *,
    backend: Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
    fullgraph: bool = False,
    disable: bool = False,
    **others: Any,
) -> dict[str, Any]:
    """What `stator.compile` is told."""
    if shapes_spec is not None or dynamic_shapes is not None:
        raise NotImplementedError(
            "stator takes no specification of shapes: mark the tensors (mark_dynamic)"
        )
    if mode is not None and options is not None:
        raise RuntimeError("torch.compile() takes a mode or options, not both")
    return {
        **others,
        **_chosen(backend, mode, options),
        "fullgraph": fullgraph or bool(forced and forced[-1].fullgraph),
        "disable": disable or any(os.environ.get(name) == "1" for name in _SWITCHES),
    }


def _chosen(
    backend: Backend | None, mode: str | None, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The backend, and what it is told."""
    told = dict(options) if options is not None else None
    if told is not None:
        told.pop("guard_filter_fn", None)  # it takes guards away: stator keeps them
        if told.pop("use_aoti", False):
            raise NotImplementedError("stator has no ahead-of-time Inductor (use_aoti)")
    wanted = forced[-1].backend if forced else None
    if wanted is not None:
        if not takes_settings(wanted):
            mode, told = None, None  # they were for another backend
    else:
        wanted = get_default_backend() if backend is None else backend
    if wanted == "inductor":
        try:
            check_settings(mode, told)
        except (TypeError, ValueError) as error:
            raise RuntimeError(str(error)) from None  # as from torch
    return {"backend": _known(wanted), "mode": mode, "options": told}


def _known(backend: Backend) -> Backend:
    """A name that stator does not know may be in torch's own registry, if that is loaded."""
    if isinstance(backend, str) and not is_built_in(backend) and backend not in list_backends():
        registry: Any = sys.modules.get("torch._dynamo.backends.registry")
        if registry is not None:
            with suppress(sys.modules["torch._dynamo.exc"].InvalidBackend):
                found: Backend = registry.lookup_backend(backend)
                return found
    return backend


def _compiled(options: dict[str, Any], model: Any) -> Any:
    if options["disable"]:
        return model
    if isinstance(model, nn.Module):
        return wrapped(unwrapped(model), _Compiling(options))
    if isinstance(model, type):
        return _class(model, partial(_compiled, options), ("__call__",))
    made = api.compile(model, **options)
    if isinstance(made, MethodType) and isinstance(made.__func__, CompiledFunction):
        # As with torch, what it compiles ahead of time takes `self` when it is called.
        unbound = OfMethod(made.__func__, made.__self__, bound=False)
        made.__func__.__dict__["aot_compile"] = unbound
    return _known_to_torch(made)


class _Compiling:
    """The `dynamo_ctx` of a compiled module."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __call__(self, fn: Any) -> Any:
        return _compiled(self._options, fn)

    def call_of(self, module: nn.Module) -> Callable[..., Any]:
        compiled: Any = api.compile(module, **self._options)
        call: Callable[..., Any] = compiled.__call__
        return call


def _known_to_torch(made: Any) -> Any:
    """With the attributes by which programs find the function behind a compiled one.

    A method has them in its function, where they speak of that: `innermost_fn` knows.
    """
    function = made.__func__ if isinstance(made, MethodType) else made
    if isinstance(function, CompiledFunction | FunctionType):
        inner: Any = function.__wrapped__  # type: ignore[union-attr]
        function.__dict__["_torchdynamo_orig_callable"] = inner
        function.__dict__["_torchdynamo_wrapper_id"] = id(function)
    return made


def innermost_fn(fn: Any) -> Any:
    """`torch._dynamo.eval_frame.innermost_fn`: what is behind all wrappers."""
    while True:
        if isinstance(fn, MethodType):
            inner = innermost_fn(fn.__func__)
            return fn if inner is fn.__func__ else MethodType(inner, fn.__self__)
        if getattr(fn, "_torchdynamo_wrapper_id", None) != id(fn):
            return fn
        fn = fn._torchdynamo_orig_callable


def _class(cls: type, change: Callable[[Any], Any], names: tuple[str, ...]) -> type:
    """A class whose instances are all meant: its methods are changed, as torch does it."""
    if issubclass(cls, nn.Module):
        names = (*names, "_call_impl")
    for name in names:
        method = getattr(cls, name, None)
        if method is not None:
            # A copy: other classes that inherit the method share nothing with this one.
            own = copied(method) if isinstance(method, FunctionType) else method
            setattr(cls, name, change(own))
    return cls


# ---------------------------------------------------------------------- torch.compiler


def set_default_backend(backend: Backend | None) -> None:
    """`torch.compiler.set_default_backend`."""
    if backend is None:
        _default.clear()
    elif isinstance(backend, str) or callable(backend):
        _default["backend"] = backend
    else:
        raise TypeError(f"a backend is a name or a callable, not {type(backend).__name__}")


def get_default_backend() -> Backend:
    """`torch.compiler.get_default_backend`."""
    return _default.get("backend", "inductor")


def disable(
    fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True
) -> Any:
    """`torch.compiler.disable`."""
    change = partial(_disabled, recursive, reason)
    return change if fn is None else change(fn)


def _disabled(recursive: bool, reason: str | None, fn: Any) -> Any:
    if isinstance(fn, nn.Module):
        return wrapped(unwrapped(fn), _Disabling(recursive, reason))
    if isinstance(fn, type):
        return _class(fn, partial(_disabled, recursive, reason), ("__init__", "__call__"))
    return _known_to_torch(api.disable(fn, recursive, reason))


class _Disabling:
    """The `dynamo_ctx` of a disabled module."""

    def __init__(self, recursive: bool, reason: str | None) -> None:
        self._given = recursive, reason

    def __call__(self, fn: Any) -> Any:
        return _disabled(*self._given, fn)

    def call_of(self, module: nn.Module) -> Callable[..., Any]:
        disabled: Any = api.disable(module, *self._given)
        call: Callable[..., Any] = disabled.__call__
        return call


def load_compiled_function(
    file: IO[bytes],
    *,
    f_globals: dict[str, object] | None = None,
    external_data: dict[str, Any] | None = None,
) -> Any:
    """`torch.compiler.load_compiled_function`; a file that torch has written is torch's to load."""
    place = file.tell()
    begin = file.read(len(MAGIC))
    file.seek(place)
    if begin == MAGIC.encode():
        return api.load_compiled_function(file, f_globals=f_globals)
    original = inspect.unwrap(torch.compiler.load_compiled_function)  # behind this one
    return original(file, f_globals=f_globals, external_data=external_data)


def allow_in_graph(fn: Any) -> Any:
    """`torch.compiler.allow_in_graph`, which also takes lists."""
    if isinstance(fn, list | tuple):
        return [allow_in_graph(each) for each in fn]
    return api.allow_in_graph(fn)


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Any:
    """`torch.compiler.substitute_in_graph`."""
    return api.substitute_in_graph(original_fn, skip_signature_check=skip_signature_check)


def optimize(
    backend: Backend = "inductor",
    *,
    nopython: bool = False,
    error_on_graph_break: bool | None = None,
    disable: bool = False,
    dynamic: bool | None = None,
    **others: Any,
) -> Any:
    """`torch._dynamo.optimize`."""
    known = ("recompile_limit", "isolate_recompiles")
    taken = {name: value for name, value in others.items() if name in known}
    if ignored := sorted(others.keys() - taken.keys()):
        warnings.warn(f"stator ignores {', '.join(ignored)} of optimize()", stacklevel=3)
    fullgraph = nopython or bool(error_on_graph_break)
    return compile(backend=backend, fullgraph=fullgraph, disable=disable, dynamic=dynamic, **taken)


def optimize_assert(backend: Backend, **options: Any) -> Any:
    """`torch._dynamo.optimize_assert`."""
    return optimize(backend, nopython=True, **options)
