"""Compiled modules: objects that are the module in everything, and compiled when called.

Stage: driver. In: an `nn.Module` and options. Out: a wrapper, or the module itself, compiled in
place.

A wrapper is an instance of a subclass of the module's class, and its `__dict__` *is* the module's:
parameters, buffers, submodules, hooks, flags and plain attributes are the same objects whichever of
the two is asked, and every method works. What differs is `__call__`, which is a slot: calling a
wrapper goes from CPython's own slot lookup to the compiled function without a Python frame between.
"""

import copy
import copyreg
import inspect
import weakref
from abc import ABCMeta
from collections.abc import Callable
from operator import methodcaller
from types import CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, Final, Protocol, SupportsIndex, TypeVar

from torch import nn

from stator import objects
from stator._native._core import CompiledFunction
from stator.distributed.replicas import Replicated, is_replica
from stator.distributed.sharded import Sharded, in_use
from stator.driver.example_inputs import checked
from stator.driver.label import Label
from stator.driver.options import Options
from stator.driver.starting import compiled_function
from stator.objects.annotations import copy_annotations

M = TypeVar("M", bound=nn.Module)


class Call(Protocol):
    """What makes the `__call__` of a wrapper, also of a copy of the wrapper."""

    def __call__(self, module: nn.Module, /) -> Callable[..., Any]: ...


# ---------------------------------------------------------------------- wrappers


class _Signature:
    """`inspect.signature(wrapper)`: that of the module. Classes have none of this kind."""

    def __get__(self, wrapper: Any, owner: type) -> inspect.Signature | None:
        return None if wrapper is None else inspect.signature(wrapper._orig_mod)


class CompiledModule:
    """Base of the classes of wrappers; comes first in their MRO."""

    __slots__ = ()
    __signature__ = _Signature()
    _orig_mod: nn.Module  # the name by which libraries look for the module behind a wrapper
    _make_call: Call

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Hides the class from the user's `__init_subclass__`: it is not a new kind of module."""

    def __copy__(self) -> Any:
        return wrap(copy.copy(self._orig_mod), self._make_call)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = wrap(copy.deepcopy(self._orig_mod, memo), self._make_call)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickled as the module: what was compiled does not travel."""
        reduced = self._orig_mod.__reduce_ex__(protocol)
        if isinstance(reduced, str):
            return reduced
        make, given, *state = reduced
        # pickle insists that `__newobj__` makes an object of the very class it was given.
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            make, given = methodcaller("__new__", *given), given[:1]
        elif make is copyreg.__newobj_ex__:  # type: ignore[attr-defined]
            cls, args, kwargs = given
            make, given = methodcaller("__new__", cls, *args, **kwargs), (cls,)
        return (make, given, *state)


def wrap(module: M, make_call: Call) -> M:
    """A wrapper of a module, which calls what `make_call` answers."""
    cls = _wrapper_class(type(module))
    made = object.__new__(cls)
    # Past nn.Module.__setattr__, which would register the module as a submodule of itself.
    own = objects.type_dict(cls)
    own["_orig_mod"].__set__(made, module)
    own["_make_call"].__set__(made, make_call)
    own["__call__"].__set__(made, make_call(module))
    objects.type_dict(nn.Module)["__dict__"].__set__(made, module.__dict__)
    return made


def unwrapped(module: nn.Module) -> nn.Module:
    """The module behind a wrapper; any other module itself."""
    return module._orig_mod if isinstance(module, CompiledModule) else module


# By id of the class of the modules, which the class of the wrappers keeps alive.
_wrapper_classes: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()


def _wrapper_class(cls: type[M]) -> type[M]:
    found = _wrapper_classes.get(id(cls))
    if found is None:
        found = _wrapper_classes[id(cls)] = _make_wrapper_class(cls)
    made: type[M] = found
    return made


def _make_wrapper_class(cls: type) -> type:
    namespace: dict[str, Any] = {
        "__slots__": ("__call__", "_orig_mod", "_make_call"),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    for base in cls.__mro__:
        for name, member in objects.type_dict(base).items():
            if type(member) is MemberDescriptorType and name not in namespace:
                namespace[name] = _forwarded(member)
    if objects.lookup(cls, "aot_compile") is None:
        namespace["aot_compile"] = _aot_compile
    if objects.lookup(cls, "__del__") is not None:
        namespace["__del__"] = _nothing  # the module's own end is what counts
    meta: Any = type(cls)
    # Past the user's metaclass, which may take note of classes, as `__init_subclass__` may.
    new = ABCMeta.__new__ if issubclass(meta, ABCMeta) else type.__new__
    made: type = new(meta, cls.__name__, (CompiledModule, cls), namespace)
    return made


def _aot_compile(wrapper: Any, inputs: Any, /) -> Any:
    """What is compiled for such a call of the module, which is not made (docs/cache.md)."""
    call = objects.type_dict(type(wrapper))["__call__"].__get__(wrapper)
    if isinstance(call, Sharded):
        call = call.usual
    if not isinstance(call, MethodType) or type(call.__func__) is not CompiledFunction:
        raise TypeError("aot_compile() is for modules of one process")
    module = wrapper._orig_mod
    return CompiledFunction.aot_compile(call.__func__, checked(inputs, module)).bound_to(module)


def _nothing(wrapper: Any) -> None:
    """The finalizer of a wrapper."""


def _forwarded(member: MemberDescriptorType) -> property:
    """A slot of the module's class: its value is not in the shared dict, but in the module."""
    return property(
        lambda wrapper: member.__get__(wrapper._orig_mod),
        lambda wrapper, value: member.__set__(wrapper._orig_mod, value),
        lambda wrapper: member.__delete__(wrapper._orig_mod),
    )


# ---------------------------------------------------------------------- what is compiled


class Compiling:
    """Makes the compiled call of a module."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __call__(self, module: nn.Module, /) -> Callable[..., Any]:
        return self._around(module, "__call__")

    def in_place(self, module: nn.Module) -> None:
        """The module itself calls what is compiled, as after `module.compile()`."""
        module._compiled_call_impl = self._around(module, "_call_impl")

    def _around(self, module: nn.Module, name: str) -> Callable[..., Any]:
        usual = MethodType(self._compiled(module, name), module)
        if not in_use():
            return usual

        def forward() -> Callable[..., Any]:
            return MethodType(self._compiled(module, "forward"), module)

        return Sharded(module, usual, forward)

    def _compiled(self, module: nn.Module, name: str) -> Callable[..., Any]:
        if is_replica(module):
            return Replicated(self._inner, name)
        caller, label = called(module, name, self._options.name)
        return compiled_function(caller, self._options, own=True, label=label)

    def _inner(self, module: nn.Module) -> Callable[..., Any]:
        return MethodType(self._compiled(module, "_call_impl"), module)


def called(module: nn.Module, name: str, shown: str | None = None) -> tuple[FunctionType, Label]:
    """The function that is compiled for a module, and what messages call it."""
    cls = type(module)
    caller = place = _caller(cls, name)
    forward = objects.lookup(cls, "forward")
    if forward is not None and isinstance(forward.value, FunctionType):
        place = forward.value
    return caller, Label.of(place, shown or cls.__qualname__)


class _Kept:
    """A copy of a class's method, and the method it is a copy of."""

    def __init__(self, original: Any, caller: FunctionType) -> None:
        self.original = original
        self.caller = caller


# Per class and method, in the class's own life: the copies refer to no class.
_callers: Final[weakref.WeakKeyDictionary[type, dict[str, _Kept]]] = weakref.WeakKeyDictionary()


def _caller(cls: type, name: str) -> FunctionType:
    """The function that is compiled for modules of a class.

    A copy of the method with a code object of its own: entries are found by code, and modules of
    one class share them, since parameters are inputs of the graph. It has no frame that the
    module's own call would not have.
    """
    found = objects.lookup(cls, name)
    if found is None or type(found.value) is not FunctionType:
        general: FunctionType = _GENERAL[name]
        return general
    kept = _callers.setdefault(cls, {})
    known = kept.get(name)
    if known is None or known.original is not found.value:
        known = kept[name] = _Kept(found.value, copied(found.value))
    return known.caller


def copied(function: FunctionType) -> FunctionType:
    """The same function, as another object with a code object of its own."""
    code: CodeType = function.__code__.replace()
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    copy_annotations(function, made)
    made.__dict__.update(function.__dict__)
    return made


def _call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


def _call_impl(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return module._call_impl(*args, **kwargs)


def _forward(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return module.forward(*args, **kwargs)


# For classes whose method is no Python function.
_GENERAL: Final[dict[str, Any]] = {
    "__call__": _call,
    "_call_impl": _call_impl,
    "forward": _forward,
}
