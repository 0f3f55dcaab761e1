"""What C code calls by itself when a class is made: hooks of its bases, its metaclass, its values.

Stage: capture, for `native_calls.run`. In: a call that makes a class, or asks an abstract one.
Out: a `Break` if one of the hooks is a function of C that must not run while tracing. Functions of
Python come back to the tracer.
"""

import abc
import builtins
import types
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import is_python_class
from stator.capture.calls import held_callables
from stator.diagnostics.catalogue import OpaqueObject
from stator.world.classes import refuse_odd

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# They ask the class, by its `__subclasshook__`.
_ABC_CHECKS: Final = frozenset(
    map(id, (vars(abc)["_abc_instancecheck"], vars(abc)["_abc_subclasscheck"]))
)
BUILD_CLASS: Final = builtins.__build_class__
TYPE_NEW: Final = type.__new__
_HOOK: Final = "__subclasshook__"
_OF_METACLASSES: Final = ("__prepare__", "__call__", "__new__", "__init__", "mro")
_OF_CALLABLES: Final = ("__prepare__", "__call__")
_OF_BASES: Final = ("__init_subclass__",)
_OF_OTHER_BASES: Final = ("__mro_entries__",)
_OF_VALUES: Final = ("__set_name__",)


def makes_class(callable: Any, args: list[Any]) -> bool:
    """Whether a call makes a class: a statement, or a metaclass that is called."""
    if callable is BUILD_CLASS or callable is TYPE_NEW:
        return len(args) > 1
    if not objects.is_subtype(type(callable), type):
        return False
    return len(args) > 1 and objects.is_subtype(callable, type)


def check_hooks(
    calls: "Calls", callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
) -> None:
    """The hooks of classes that C code calls in a call."""
    if id(callable) in _ABC_CHECKS:
        if args and objects.is_subtype(type(args[0]), type):
            refuse_odd(args[0], _HOOK, objects.lookup(args[0], _HOOK))
    elif makes_class(callable, args):
        _check_making(calls, callable, args, kwnames)


def _check_making(
    calls: "Calls", callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
) -> None:
    keywords = len(kwnames or ())
    positional = args[: len(args) - keywords]
    if not positional:
        return  # that raises
    if callable is BUILD_CLASS:
        given = dict(zip(kwnames or (), args[len(positional) :], strict=True))
        bases, namespace = positional[2:], None
        if "metaclass" in given:
            _check_metaclass(calls, given["metaclass"])
    else:
        own = callable is TYPE_NEW
        _check_metaclass(calls, positional[0] if own else callable)
        bases = positional[2 if own else 1 :][:1]
        bases = list(bases[0]) if bases and type(bases[0]) is tuple else []
        namespace = positional[-1]
    for base in bases:
        if objects.is_subtype(type(base), type):
            _check_metaclass(calls, type(base))
            _use(calls, base, _OF_BASES)
        else:
            _use(calls, type(base), _OF_OTHER_BASES)
            _refuse_own(base, _OF_OTHER_BASES)
    if namespace is not None and objects.is_subtype(type(namespace), dict):
        record = calls.world.records.get(id(namespace))
        if record is not None:
            calls.world.fill(record)
        for value in list(dict.values(namespace)):
            _use(calls, type(value), _OF_VALUES)


def _check_metaclass(calls: "Calls", meta: Any) -> None:
    if objects.is_subtype(type(meta), type):
        _use(calls, meta, _OF_METACLASSES)
        return
    refused = held_callables.refused(calls, meta)
    if refused is not None:
        raise refused
    _use(calls, type(meta), _OF_CALLABLES)
    _refuse_own(meta, _OF_CALLABLES)


def _use(calls: "Calls", cls: Any, names: tuple[str, ...]) -> None:
    if is_python_class(cls):
        calls.world.protocol(cls, names)


def _refuse_own(value: Any, names: tuple[str, ...]) -> None:
    """C code finds them in the object itself, too."""
    own = objects.instance_dict(value) or {}
    for name in names:
        found = dict.get(own, name)
        if found is None or type(found) is types.FunctionType:
            continue  # as in `typing.TypedDict`: what it does goes through the tracer
        raise OpaqueObject("an object has a hook of its own for classes that are made of it")
