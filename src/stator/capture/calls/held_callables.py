"""C callables that C code calls by itself: a factory, a hook, what compares keys.

Stage: capture, for `native_calls.run`. In: what C code is given to call, or holds already. Out: a
Python function in its place, so that the call comes back to the tracer, where nobody can see which
one it is. Elsewhere a C callable must be one that may run while tracing: else a `Break`.
"""

import functools
import itertools
import re
import types
from bisect import bisect_left, bisect_right, insort_left, insort_right
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stator import contracts, objects
from stator._native._core import Frame, is_python_class
from stator.capture.calls.arguments import is_functools_type
from stator.capture.library.decimals import is_decimal
from stator.capture.trace.refusals import FORBIDDEN
from stator.contracts import Verdict
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import UnknownCFunction
from stator.graph.leaves import leaves
from stator.objects.types import module_of, name_of
from stator.world import MISSING
from stator.world.records import FACTORY

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# C callables that call a callable, and let nobody see which one it is. If that is a C callable,
# too, its calls must go through the tracer, which makes what it is given ready.
APPLIERS: Final = frozenset(
    map(
        id,
        (
            map,
            filter,
            sorted,
            list.sort,
            min,
            max,
            iter,
            functools.reduce,
            functools.cmp_to_key,
            functools._lru_cache_wrapper,
            itertools.accumulate,
            itertools.dropwhile,
            itertools.filterfalse,
            itertools.groupby,
            itertools.starmap,
            itertools.takewhile,
            bisect_left,
            bisect_right,
            insort_left,
            insort_right,
            re.Pattern.sub,
            re.Pattern.subn,
        ),
    )
)
BY_KEY: Final = frozenset(map(id, (sorted, min, max, list.sort)))
# The arguments of a call, or the fields of an object, that `_json` calls.
_OF_SCANNER: Final = ("object_hook", "object_pairs_hook", "parse_float", "parse_int")
_HOOKS: Final = (*_OF_SCANNER, "parse_constant")
_ENCODER_CALLS: Final = (1, 2)  # default, encoder


def callee(calls: "Calls", value: Any, given: Any = MISSING) -> Any:
    """A callable that C code will call: what it does goes through the tracer, too.

    `given` is what the program has given to C code, if that is something else.
    """
    function = value.__func__ if type(value) is types.MethodType else value
    plain = type(function) is types.FunctionType and not calls.is_special(function)
    if plain or value is None:
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    calls.made[id(call)] = call  # type: ignore[assignment]
    calls.stand_ins[id(call)] = value if given is MISSING else given
    return call


def applies(callable: Any, bound: tuple[Any, ...]) -> bool:
    """Whether what a C callable calls can be replaced."""
    if id(callable) in APPLIERS:
        return True
    return bool(bound) and type(bound[0]) in (list, re.Pattern)


def is_json(cls: Any, name: str) -> bool:
    """A C class of the module `_json`, also of one that was imported a second time."""
    if not objects.is_subtype(type(cls), type) or is_python_class(cls):
        return False
    return module_of(cls) == "_json" and name_of(cls) == name


def json_arguments(calls: "Calls", frame: Frame, cls: Any, args: list[Any]) -> list[Any]:
    """What a scanner or an encoder of `_json` is made with: its hooks come back to the tracer."""
    if is_json(cls, "Scanner") and len(args) == 1:
        fields = {"strict": calls.tracer.getattr(frame, args[0], "strict")}
        for name in _HOOKS:
            value = calls.tracer.getattr(frame, args[0], name)
            exact = value is float or value is int
            fields[name] = value if exact else callee(calls, value)
        return [types.SimpleNamespace(**fields)]
    if is_json(cls, "Encoder"):
        return [
            callee(calls, value) if place in _ENCODER_CALLS and not _is_pure(value) else value
            for place, value in enumerate(args)
        ]
    return args


def _is_pure(value: Any) -> bool:
    """A function of C that C code may know by its address."""
    if type(value) is not types.BuiltinFunctionType:
        return False
    contract = contracts.lookup(value)
    return contract is not None and contract.verdict is Verdict.PURE


def refused(calls: "Calls", value: Any) -> Break | None:
    """Why C code must not call what an object holds, if it must not."""
    for each in _held(value):
        found = _refused(calls, each)
        if found is not None:
            return found
    return None


def _held(value: Any) -> Iterator[Any]:
    cls = type(value)
    base = objects.layout_base(cls)
    if base is defaultdict:
        yield FACTORY.__get__(value)
    elif is_json(base, "Scanner"):
        yield from (objects.type_dict(base)[name].__get__(value) for name in _HOOKS)
    elif is_json(base, "Encoder"):
        yield from (objects.type_dict(base)[name].__get__(value) for name in ("default", "encoder"))
    elif base is property:
        yield from (value.fget, value.fset, value.fdel)
    else:
        yield value


def _refused(calls: "Calls", value: Any) -> Break | None:
    while (behind := _behind(value)) is not MISSING:
        value = behind
    cls = type(value)
    if value is None or cls is types.FunctionType or is_python_class(cls):
        return None
    is_class = objects.is_subtype(cls, type)
    if is_class and (is_python_class(value) or objects.is_subtype(value, BaseException)):
        return None
    if objects.lookup(cls, "__call__") is None:
        return None
    name = getattr(value, "__qualname__", cls.__qualname__)
    rule = leaves.classify(value)
    if rule is not None and rule.kind is not leaves.Kind.FORBIDDEN:
        return None  # torch tells the tracer, whoever calls it
    contract = contracts.lookup(value)
    if contract is None or contract.verdict is Verdict.FRAME:
        return UnknownCFunction(f"C code calls {name}, which no contract allows it to")
    if contract.verdict is Verdict.FORBIDDEN:
        assert contract.reason is not None
        if contract.reason is contracts.Reason.HIDDEN_STATE and is_decimal(value):
            calls.decimals.begin()
            return None
        return FORBIDDEN[contract.reason](f"C code calls {name}, which {contract.reason.value}")
    owner = getattr(value, "__self__", None)
    if contract.verdict is Verdict.MUTATES and (owner is None or calls.world.is_world(owner)):
        return UnknownCFunction(f"C code calls {name}, which changes what it is given")
    if owner is not None and type(owner) is not types.ModuleType:
        spec = contract.argument(0)
        calls.values.ready(owner, spec.depth, attributes=spec.attributes, calls=True)
    return None


def _behind(value: Any) -> Any:
    """What a method or a partial calls; MISSING for other callables."""
    cls = type(value)
    if cls is types.MethodType or cls is staticmethod:
        return value.__func__
    return value.func if is_functools_type(cls, "partial") else MISSING
