"""Calls of C code: what its contract says is done before and after.

Stage: capture, for `Calls`. In: a C callable for which there is no other rule, and its arguments.
Out: what CPython answers, when the arguments have been made ready as the contract says; or the
reason why it must not run while tracing.
"""

import decimal
import itertools
import sys
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import contracts, objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.calls import held_callables
from stator.capture.calls.arguments import is_functools_type
from stator.capture.calls.class_making import BUILD_CLASS, TYPE_NEW, check_hooks, makes_class
from stator.capture.calls.held_callables import callee
from stator.capture.calls.python_calls import note
from stator.capture.library.decimals import is_decimal
from stator.capture.objects import process_answers
from stator.capture.objects.values import is_torch_value
from stator.capture.texts import warning_filters
from stator.capture.texts.text import makes_text
from stator.capture.texts.warning_filters import chosen_filters, in_place
from stator.capture.trace.refusals import FORBIDDEN, unseen
from stator.contracts import Contract, Depth, SymInt, Verdict
from stator.diagnostics.catalogue import (
    ArrayChanged,
    HiddenState,
    IteratorInUse,
    OpaqueObject,
    UnknownCFunction,
    ValueNeeded,
)
from stator.effects.texts import Text
from stator.objects import TypeSet
from stator.objects.types import flags_of
from stator.world.kinds import BUILTIN_METHOD, CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

NATIVE: Final = TypeSet(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    BUILTIN_METHOD,
)
_FREE: Final = TypeSet(types.ModuleType, types.NoneType)  # what functions of C are bound to
_UNBOUND: Final = TypeSet(
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType
)
# With None for a function, they ask for the truth of the items.
TRUTH: Final = frozenset(map(id, (filter, itertools.filterfalse)))
_NO_INSTANCES: Final = 1 << 7  # Py_TPFLAGS_DISALLOW_INSTANTIATION
_REDUCERS: Final = ("__reduce__", "__reduce_ex__")
_CLASS_MAKERS: Final = frozenset(map(id, (BUILD_CLASS, type, TYPE_NEW)))
_PURE: Final = Contract(Verdict.READS, (contracts.Argument(Depth.SHALLOW),), False, False, None)


def describe(callable: Any) -> str:
    """What to call a C callable in a message."""
    cls = type(callable)
    if objects.is_subtype(cls, type):
        return f"{callable.__module__}.{callable.__qualname__}"
    if NATIVE.holds(cls):
        owner: Any = getattr(callable, "__objclass__", None)
        if owner is None:
            bound = getattr(callable, "__self__", None)
            if type(bound) is types.ModuleType:
                return f"{bound.__name__}.{callable.__name__}"
            owner = bound if objects.is_subtype(type(bound), type) else type(bound)
        return f"{owner.__qualname__}.{callable.__name__}"
    return f"an object of type {cls.__module__}.{cls.__qualname__}"


def contract_of(calls: "Calls", callable: Any) -> Contract | None:
    """The contract of a C callable; bound ones are looked up each time: to keep one keeps alive
    what it is bound to.
    """
    kept = type(callable) is types.BuiltinFunctionType and _FREE.holds(type(callable.__self__))
    if kept or _UNBOUND.holds(type(callable)):
        key = id(callable)
        if key not in calls.contracts:
            calls.world.keep(callable)
            calls.contracts[key] = contracts.lookup(callable)
        return calls.contracts[key]
    return contracts.lookup(callable)


def contract_of_class(calls: "Calls", cls: Any) -> Contract:
    """The contract of a C class, which must have one."""
    contract = contract_of(calls, cls)
    if contract is None and flags_of(cls) & _NO_INSTANCES:
        return _PURE  # it raises
    if contract is None:
        raise UnknownCFunction(f"no contract says what the C class {describe(cls)} does")
    return contract


def contract_of_function(calls: "Calls", callable: Any) -> Contract:
    """The contract of a C function or method, which must have one."""
    contract = contract_of(calls, callable)
    if contract is None and _is_value_method(callable):
        contract = _PURE
    if contract is None and is_decimal(callable):  # context managers, dicts of signals
        contract = contracts.lookup(decimal.getcontext)
    if contract is None:
        raise UnknownCFunction(f"no contract says what the C function {describe(callable)} does")
    return contract


def by_contract(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A handler: the call as it is."""
    contract = contract_of(calls, function)
    if contract is None:
        raise UnknownCFunction(f"no contract says what {function!r} does")
    return run(calls, frame, function, [*args, *kwargs.values()], tuple(kwargs) or None, contract)


def run(
    calls: "Calls",
    frame: Frame,
    callable: Any,
    args: list[Any],
    kwnames: tuple[str, ...] | None,
    contract: Contract,
    bound: tuple[Any, ...] = (),
) -> Any:
    """Runs C code under its contract."""
    texts = calls.tracer.texts
    if not texts.open and makes_text(callable):
        with texts.window():
            result = run(calls, frame, callable, args, kwnames, contract, bound)
        return texts.split(frame, result)
    if contract.verdict is Verdict.FORBIDDEN:
        return _forbidden(calls, frame, callable, args, kwnames, contract, bound)
    offset = len(bound)
    if not offset and _is_callable_object(type(callable)):
        bound, offset = (callable,), 1  # it is its own argument 0
    keywords = len(kwnames or ())
    positional = len(args) - keywords
    by_key = id(callable) in held_callables.BY_KEY  # called is what is given by keyword
    specialized = not (texts.open or _has_own_new(callable))
    compares = contract.calls_back and not texts.open
    lent: list[Any] = []
    applies = held_callables.applies(callable, bound)
    args = held_callables.json_arguments(calls, frame, callable, args)
    for index, value in enumerate((*bound, *args)):
        given = index - offset
        spec = contract.keywords if given >= positional else contract.argument(index)
        applied = applies and given >= 0 and (given >= positional or not by_key)
        if spec.called and applied and objects.lookup(type(value), "__call__") is not None:
            args[given] = callee(calls, value)
            continue
        if CONSTANTS.holds(type(value)):
            if value is None and spec.called and id(callable) in TRUTH:
                args[given] = callee(calls, bool, None)
            elif value is NotImplemented and callable is bool and warning_filters.TRUTH.it_does:
                return warning_filters.TRUTH.carry_out(calls, core.truth, frame, value)
            continue
        holds = contract.calls_back and objects.is_subtype(type(value), defaultdict)
        if holds or (spec.called and _calls_now(callable, contract)):
            calls.check_held(value)
        if spec.called and is_python_class(type(value)):
            calls.world.class_attribute(type(value), "__call__")  # C code asks whether there is one
        needed = specialized and spec.symint is not SymInt.PASS
        if needed and type(value) is torch.SymInt and given >= 0:
            known = calls.tensors.scalars.speculation.number(frame, value)
            if known is not None:
                args[given] = known
                continue
        if spec.mutated and calls.arrays.holds(type(value)):
            raise ArrayChanged(f"{describe(callable)} changes a numpy array")
        if spec.iterated and given >= 0 and id(value) in calls.world.opaque:
            borrowed = calls.tracer.ahead.lent(value)
            if borrowed is not None:
                _ready_lent(calls, borrowed, spec, contract)
                lent.append((borrowed, sys.getrefcount(borrowed.iterator)))
                args[given] = borrowed.iterator
                continue
        try:
            calls.values.ready(
                value, spec.depth, attributes=spec.attributes, calls=contract.calls_back
            )
        except (OpaqueObject, IteratorInUse) as unread:
            unread.reason = unread.reason.replace("C code", describe(callable), 1)
            raise
        if needed and calls.tensors.has_symbols(value, spec.depth):
            value = calls.tensors.shapes.fixed(frame, value)
            if calls.tensors.has_symbols(value, spec.depth):
                raise ValueNeeded(f"{describe(callable)} needs a number that depends on values")
            if given >= 0:
                args[given] = value
        if compares and spec.depth is Depth.DEEP:
            calls.values.compared(value)
        if spec.hashed:
            calls.world.hashed(value)
        if spec.mutated:
            calls.world.touch(value)
        if spec.mutated and calls.world.is_world(value) and id(value) not in calls.world.records:
            raise OpaqueObject(
                f"{describe(callable)} changes an object of type {type(value).__qualname__} "
                f"that existed before the call"
            )
    check_hooks(calls, callable, args, kwnames)
    process_answers.called(calls.world, callable, contract, bound, args)
    if lent:
        return _lending(calls, frame, callable, args, kwnames, lent)
    result = call_c(calls, frame, callable, args, kwnames)
    process_answers.answered(calls.world, result)
    return received(calls, callable, result)


def _lending(
    calls: "Calls",
    frame: Frame,
    callable: Any,
    args: list[Any],
    kwnames: tuple[str, ...] | None,
    lent: list[tuple[Any, int]],
) -> Any:
    """C code goes through iterators of the world; how often each was referred to is given."""
    try:
        result = call_c(calls, frame, callable, args, kwnames)
    finally:
        if not all(each.is_current() for each, _ in lent):  # by functions that C code has called
            raise IteratorInUse(f"{describe(callable)} iterates over what is changed meanwhile")
    args.clear()
    kept = [each for each, count in lent if sys.getrefcount(each.iterator) > count]
    calls.tracer.ahead.kept += [(each, calls.tracer.steps - 1) for each in kept]
    return received(calls, callable, result)


def _ready_lent(calls: "Calls", lent: Any, spec: Any, contract: Contract) -> None:
    """C code will go through an iterator of the world: what it comes to is made ready."""
    items = lent.ready()
    depth = Depth.DEEP if spec.depth is Depth.DEEP else Depth.SHALLOW
    calls.values.ready(items, depth, calls=contract.calls_back)
    if spec.symint is not SymInt.PASS and calls.tensors.has_symbols(items, Depth.DEEP):
        raise IteratorInUse("C code needs numbers of an iterator that existed before the call")
    if contract.calls_back and depth is Depth.DEEP:
        calls.values.compared(items)
    if spec.hashed:
        calls.world.hashed(items)


def known_number(calls: "Calls", frame: Frame, value: Any, what: str) -> Any:
    """A value for C code that takes real numbers, if it is or contains one that is not known."""
    if CONSTANTS.holds(type(value)):
        return value
    if type(value) is torch.SymInt:
        known = calls.tensors.scalars.speculation.number(frame, value)
        if known is not None:
            return known
    if calls.tensors.has_symbols(value, Depth.DEEP):
        value = calls.tensors.shapes.fixed(frame, value)
        if calls.tensors.has_symbols(value, Depth.DEEP):
            raise ValueNeeded(f"{what} needs a number that depends on values")
    return value


def _forbidden(
    calls: "Calls",
    frame: Frame,
    callable: Any,
    args: list[Any],
    kwnames: tuple[str, ...] | None,
    contract: Contract,
    bound: tuple[Any, ...],
) -> Any:
    """C code that must not run while tracing, unless what it hides is known."""
    assert contract.reason is not None
    if contract.reason is contracts.Reason.HIDDEN_STATE and is_decimal(callable):
        if calls.contexts.entered:
            raise HiddenState("the decimal context of another context is used")
        calls.decimals.begin()
        for value in (*bound, *args):
            calls.values.ready(value, Depth.DEEP, calls=not is_decimal(type(value)))
        args = [known_number(calls, frame, value, describe(callable)) for value in args]
        return received(calls, callable, call_c(calls, frame, callable, args, kwnames))
    kind = FORBIDDEN[contract.reason]
    raise kind(f"{describe(callable)} {contract.reason.value}")


def call_c(
    calls: "Calls", frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
) -> Any:
    """CPython's call; torch calls that C code makes meanwhile are on behalf of this frame."""
    outer, calls.tensors.frame = calls.tensors.frame, frame
    making = calls.world.making
    name = _class_name(callable, args)
    if name is not None:
        making.append(name)
    try:
        chosen = chosen_filters(calls)
        if chosen is not None:
            with in_place(chosen):
                return core.call(frame, callable, args, kwnames)
        return core.call(frame, callable, args, kwnames)
    except (TypeError, AttributeError):
        for value in args:
            if type(value) is Text:  # a string would have been right, perhaps
                raise unseen(calls.world, value, f"{describe(callable)} reads {{}}") from None
        raise
    finally:
        calls.tensors.frame = outer
        if name is not None:
            making.pop()


def received(calls: "Calls", callable: Any, result: Any) -> Any:
    """What C code has made or found."""
    cls = type(result)
    if CONSTANTS.holds(cls):
        return result
    note(calls, result)
    made = objects.is_subtype(type(callable), type)
    if made and is_functools_type(objects.layout_base(cls), "_lru_cache_wrapper"):
        calls.made_caches.add(id(result))
        calls.world.keep(result)
    if cls is types.FunctionType:
        if callable is types.FunctionType and id(result) not in calls.world.origins:
            calls.made[id(result)] = result
    elif objects.is_subtype(cls, type) and id(callable) in _CLASS_MAKERS:
        calls.world.made_classes.add(id(result))
        calls.world.keep(result)
        calls.made_at[id(result)] = calls.tracer.steps - 1
    elif cls is tuple and calls.stand_ins and getattr(callable, "__name__", "") in _REDUCERS:
        return _unmasked(calls, result)
    known = calls.world.stand_ins.get(id(result))
    return result if known is None else known


def _unmasked(calls: "Calls", value: Any) -> Any:
    """What an object of C says that it is made of, with what the program gave it itself."""
    if type(value) is tuple:
        return tuple(_unmasked(calls, part) for part in value)
    return calls.stand_ins.get(id(value), value)


def _is_callable_object(cls: type) -> bool:
    """An object with `__call__` that is neither a function nor a class."""
    return not (NATIVE.holds(cls) or cls is types.FunctionType or objects.is_subtype(cls, type))


def _calls_now(callable: Any, contract: Contract) -> bool:
    """Whether C code calls what it is given by itself: not so a partial, whose function is called
    by way of the tracer, and what looks at the frame that calls it.
    """
    cls = callable if objects.is_subtype(type(callable), type) else type(callable)
    partial = is_functools_type(objects.layout_base(cls), "partial")
    return not partial and contract.verdict is not Verdict.FRAME


def _has_own_new(callable: Any) -> bool:
    """A class that is made by Python code: a named tuple, in particular."""
    if not objects.is_subtype(type(callable), type):
        return False
    found = objects.lookup(callable, "__new__")
    return found is not None and is_python_class(found.owner)


def _is_value_method(callable: Any) -> bool:
    """A method of torch.Size, torch.dtype …: immutable values."""
    owner = getattr(callable, "__objclass__", None)
    if owner is None:
        owner = type(getattr(callable, "__self__", None))
    return is_torch_value(owner)


def _class_name(callable: Any, args: list[Any]) -> str | None:
    """The name of the class that a call is about to make, if it makes one."""
    if not makes_class(callable, args):
        return None
    name = args[1 if callable is BUILD_CLASS or callable is TYPE_NEW else 0]
    return name if type(name) is str else None
