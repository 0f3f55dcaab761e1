"""Functions of the standard library that a tracer answers in its own way.

In: a call of one of these functions. Out: the result. They keep caches (`re`, `copyreg`), have a
twin in Python that can be evaluated (`pickle`), make locks, or ask for state of the process, which
is then guarded.
"""

import _thread
import builtins
import codecs
import copyreg
import functools
import importlib
import json
import pickle
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler, _plain, _substitute
from stator.capture.calls.python_calls import evaluated
from stator.capture.library.missing_modules import imported, missing
from stator.capture.objects.c_fields import module_named
from stator.contracts import Depth
from stator.diagnostics.catalogue import HiddenState, InterpreterState, OddNamespace, Threads
from stator.guards import Callback, Fixed
from stator.objects import TypeSet
from stator.objects.types import name_of
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_PATTERNS: Final = TypeSet(str, bytes, re.Pattern)
# The last one is the default of `re.sub` and the like, since 3.13.
_FLAGS: Final = TypeSet(int, re.RegexFlag, type(getattr(re, "_zero_sentinel", 0)))
# What `re` warns about: these patterns are compiled by evaluating its parser.
_WARNED: Final = ("[[", "[^[", "--", "&&", "~~", "||")


def _re_compile(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`re._compile`: its cache speeds up, and answers nothing else than the compiler."""
    if len(args) == 2 and not kwargs:
        pattern, flags = args
        if _PATTERNS.holds(type(pattern)) and _FLAGS.holds(type(flags)):
            text = pattern.decode("latin-1") if type(pattern) is bytes else str(pattern)
            if int(flags) & re.DEBUG.value:
                return evaluated(calls, frame, function, args, kwargs)  # which prints
            if not any(part in text for part in _WARNED):
                return core.call_native(frame, function, pattern, int(flags))
            return calls.function(frame, re._compiler.compile, [pattern, int(flags)], None)  # type: ignore[attr-defined]
    return evaluated(calls, frame, function, args, kwargs)


def _json_loads(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A text alone, without hooks: what is made of it is new."""
    if len(args) == 1 and not kwargs and type(args[0]) in (str, bytes):
        return core.call_native(frame, function, args[0])
    return evaluated(calls, frame, function, args, kwargs)


def _slotnames(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`copyreg._slotnames` without its cache, an attribute of the class."""
    if len(args) != 1 or kwargs or not objects.is_subtype(type(args[0]), type):
        return evaluated(calls, frame, function, args, kwargs)
    found: list[str] = []
    for owner in objects.mro(args[0]):
        slots = objects.type_dict(owner).get("__slots__", ())
        if type(slots) is str:
            slots = (slots,)
        if type(slots) is dict or type(slots) is list:
            slots = tuple(slots)
        if type(slots) is not tuple or any(type(name) is not str for name in slots):
            raise OddNamespace(
                f"the slots of {objects.type_dict(owner).get('__qualname__', owner)}"
            )
        for name in slots:
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):
                stripped = name_of(owner).lstrip("_")
                name = f"_{stripped}{name}" if stripped else name
            found.append(name)
    return found


def _asked(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """State of the process that is a constant, as long as a guard says so."""
    if args or kwargs:
        return _plain(calls, frame, function, args, kwargs)
    answer = function()
    if not CONSTANTS.holds(type(answer)):
        raise InterpreterState(
            f"{function.__module__}.{function.__name__} answers more than a constant"
        )
    name = f"{function.__module__}.{function.__name__}() is {answer!r}"
    calls.world.guard(Fixed(function), Callback(lambda asked: asked() == answer, name))
    return answer


def _import(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`__import__`: of modules that are loaded already."""
    names = ("name", "globals", "locals", "fromlist", "level")
    given: dict[str, Any] = dict(zip(names, args, strict=False)) | kwargs
    known = type(given.get("name")) is str and type(given.get("level", 0)) is int
    if not known or given.get("level", 0) or len(args) > len(names):
        return _plain(calls, frame, function, args, kwargs)
    parts = given.get("fromlist", ())
    calls.values.ready(parts, Depth.DEEP)
    if parts is not None and type(parts) not in (list, tuple):
        return _plain(calls, frame, function, args, kwargs)
    return calls.tracer.instructions.import_module(frame, (given["name"], None, None, parts, 0))


def _import_module(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    if len(args) == 1 and not kwargs and type(args[0]) is str and args[0] in sys.modules:
        return module_named(calls.world, args[0])
    if len(args) == 1 and not kwargs and type(args[0]) is str:
        error = missing(calls.world, args[0])
        if error is not None:
            core.raise_user(error)
        if not args[0].startswith("."):
            raise imported(args[0])
    return evaluated(calls, frame, function, args, kwargs)


def _new_lock(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A lock of the program's own; it is elided like any other."""
    if args or kwargs:
        return _plain(calls, frame, function, args, kwargs)
    lock = core.call(frame, function, [], None)
    calls.world.keep(lock)
    return lock


def _cache(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Methods of a `functools.lru_cache` that the program has made itself."""
    if not args or id(args[0]) not in calls.made_caches:
        raise HiddenState("a cache that existed before the call is inspected or cleared")
    bound = type(function) is types.BuiltinFunctionType
    return _plain(calls, frame, function, args[1:] if bound else args, kwargs)


def _audit(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`sys.audit`: hooks written in Python are evaluated."""
    for value in args:
        calls.values.ready(value, Depth.DEEP, attributes=True)
    return _plain(calls, frame, function, args, kwargs)


def _codec(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`codecs.encode` and `decode`, by codecs of C that are loaded already."""
    if kwargs or len(args) != 2 or type(args[1]) is not str or args[1] not in _ENCODINGS:
        raise HiddenState(f"codecs.{function.__name__} runs a codec that may be anything")
    if type(args[0]) is not str and type(args[0]) is not bytes:
        raise HiddenState(f"codecs.{function.__name__} of an object that is no text")
    return _plain(calls, frame, function, args, kwargs)


def _by_twin(twin: types.FunctionType) -> Handler:
    """A C function of `pickle`, by the same function in Python."""
    return _substitute(twin)


def _pickler(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    values = [*args, *kwargs.values()]
    twin = pickle._Pickler if function is pickle.Pickler else pickle._Unpickler
    calls.world.know(twin)
    return calls.construct(frame, twin, values, tuple(kwargs) or None)


# What pickle encodes with: looking a codec up for the first time imports its module.
_ENCODINGS: Final = frozenset(
    {"ascii", "latin-1", "latin1", "utf-8", "raw-unicode-escape", "unicode-escape"}
)
for _encoding in _ENCODINGS:
    codecs.lookup(_encoding)


def _members(cls: type, *names: str) -> list[int]:
    return [id(objects.type_dict(cls)[name]) for name in names]


_twins: Final[dict[Any, Any]] = {
    getattr(pickle, name): getattr(pickle, f"_{name}")
    for name in ("dump", "dumps", "load", "loads")
}
# Not `gc.isenabled`: while a program is traced, the collector is off.
_asked_functions: Final[tuple[Callable[[], Any], ...]] = (
    sys.gettrace,
    sys.getprofile,
    sys.getrecursionlimit,
    sys.getswitchinterval,
    sys.getdlopenflags,
    sys.get_int_max_str_digits,
    sys.get_coroutine_origin_tracking_depth,
)


def _new_thread(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The threads that there are, are kept in a set that they leave when they die."""
    raise Threads("a thread is made")


def _call(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`len.__call__(x)`: the callable itself, with what is known about it."""
    if not args or not _CALLED.holds(type(args[0])):
        return evaluated(calls, frame, function, args, kwargs)  # which raises
    return calls.native(frame, args[0], [*args[1:], *kwargs.values()], tuple(kwargs) or None)


def _exit(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`sys.exit` raises an exception, and does nothing else."""
    for value in args:
        calls.values.ready(value, Depth.SHALLOW)  # a tuple is taken apart
    return core.call(frame, function, [*args, *kwargs.values()], tuple(kwargs) or None)


_CALLABLES: Final = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_CALLED: Final = TypeSet(*_CALLABLES)

LIBRARY: Final[dict[int, Handler]] = {
    **dict.fromkeys((id(cls.__dict__["__call__"]) for cls in _CALLABLES), _call),
    id(threading.Thread): _new_thread,
    id(re._compile): _re_compile,  # type: ignore[attr-defined]
    id(json.loads): _json_loads,
    id(copyreg._slotnames): _slotnames,  # type: ignore[attr-defined]
    id(builtins.__import__): _import,
    id(importlib.import_module): _import_module,
    id(_thread.allocate_lock): _new_lock,
    id(_thread.LockType): _new_lock,  # which is `threading.Lock` since 3.13
    id(_thread.RLock): _new_lock,
    id(pickle.Pickler): _pickler,
    id(pickle.Unpickler): _pickler,
    id(sys.audit): _audit,
    id(sys.exit): _exit,
    id(codecs.encode): _codec,
    id(codecs.decode): _codec,
    **{id(function): _asked for function in _asked_functions},
    **{id(function): _by_twin(twin) for function, twin in _twins.items()},
    **dict.fromkeys(_members(functools._lru_cache_wrapper, "cache_info", "cache_clear"), _cache),
}
