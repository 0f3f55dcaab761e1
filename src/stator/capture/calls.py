"""Calls in a trace: what is evaluated, recorded, run by CPython, and what ends the trace.

In: a callable of any kind with its arguments. Out: a pushed frame (Python functions), a graph node
(torch's leaves), or the result of C code that a contract allows, its arguments made ready first.
"""

import builtins
import copyreg
import decimal
import functools
import itertools
import types
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from stator import contracts, objects
from stator._native import _core as core
from stator._native._core import NULL, CompiledFunction, Frame, is_python_class
from stator.capture import changes, marks, warned
from stator.capture.abandoned import GENERATORS, Abandoned
from stator.capture.behind import cached_behind, compiled_behind
from stator.capture.cached import CACHED, Answer, Answers, Once, known, once
from stator.capture.controls import CONTROLS, Errors, function_behind, is_for_dynamo
from stator.capture.copies import COPIES
from stator.capture.decimals import Decimals, is_decimal
from stator.capture.defaults import guard_function, guard_misfit, wrap_defaults
from stator.capture.formatting import FORMATTING
from stator.capture.getters import GETTERS, twin
from stator.capture.library import LIBRARY
from stator.capture.locks import Locks, is_lock
from stator.capture.logged import LOGGING
from stator.capture.overridden import OVERRIDDEN
from stator.capture.printing import PRINTING
from stator.capture.refusals import FORBIDDEN, MARKED
from stator.capture.scalar_calls import SCALARS
from stator.capture.settings import DEVICES
from stator.capture.special import SPECIAL
from stator.capture.text import makes_text
from stator.capture.values import is_torch_value
from stator.capture.vmapped import VMAP
from stator.capture.warned import WARNINGS
from stator.capture.weakly import WEAK, referent
from stator.contracts import Contract, Depth, SymInt, Verdict
from stator.diagnostics.catalogue import (
    ArrayChanged,
    Finalizer,
    MarkMisfit,
    OpaqueObject,
    UnknownCFunction,
    ValueNeeded,
)
from stator.graph import leaves
from stator.guards import Fixed
from stator.objects import TypeSet
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tracer import Tracer

SPECIAL.update(LIBRARY)
SPECIAL.update(COPIES)
SPECIAL.update(DEVICES)
SPECIAL.update(WARNINGS)
SPECIAL.update(FORMATTING)
SPECIAL.update(PRINTING)
SPECIAL.update(CACHED)
SPECIAL.update(WEAK)
SPECIAL.update(LOGGING)
SPECIAL.update(SCALARS)
SPECIAL.update(CONTROLS)
SPECIAL.update(VMAP)
SPECIAL.update(OVERRIDDEN)
_NATIVE: Final = TypeSet(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
_UNBOUND: Final = TypeSet(
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType
)
# C callables that apply a callable to items one by one. If that is a C callable too, its calls must
# go through the tracer, which makes the items ready.
_APPLIERS: Final = frozenset(
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
            itertools.accumulate,
            itertools.dropwhile,
            itertools.filterfalse,
            itertools.groupby,
            itertools.starmap,
            itertools.takewhile,
        ),
    )
)
# Symbolic numbers do their arithmetic in Python code of torch, which is not the program's.
_SYMBOL_MODULES: Final = frozenset({"torch", "torch.fx.experimental.sym_node"})
_SYMBOL_NAMES: Final = ("SymInt.", "SymFloat.", "SymBool.", "_make_user_magic.")
_DESCRIPTOR_METHODS: Final = frozenset({"__get__", "__set__", "__delete__"})
_BY_KEY: Final = frozenset(map(id, (sorted, min, max, list.sort)))
_module_of: Final = type.__dict__["__module__"].__get__
_wrapper_class: Final = types.MethodWrapperType.__dict__["__objclass__"].__get__


def _is_callable_object(cls: type) -> bool:
    """An object with `__call__` that is neither a function nor a class."""
    return not (_NATIVE.holds(cls) or cls is types.FunctionType or objects.is_subtype(cls, type))


def describe(callable: Any) -> str:
    """What to call a C callable in a message."""
    cls = type(callable)
    if objects.is_subtype(cls, type):
        return f"{callable.__module__}.{callable.__qualname__}"
    if _NATIVE.holds(cls):
        owner: Any = getattr(callable, "__objclass__", None)
        if owner is None:
            bound = getattr(callable, "__self__", None)
            if type(bound) is types.ModuleType:
                return f"{bound.__name__}.{callable.__name__}"
            owner = bound if objects.is_subtype(type(bound), type) else type(bound)
        return f"{owner.__qualname__}.{callable.__name__}"
    return f"an object of type {cls.__module__}.{cls.__qualname__}"


class Calls:
    """Decides about calls."""

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.world = tracer.world
        self.values = tracer.values
        self.tensors = tracer.tensors
        self.arrays = tracer.arrays
        self.made = tracer.world.made
        self.tensors.overrides.calls = self
        self.stand_ins: dict[int, Any] = {}  # what a function given to C code stands for
        self.locks = Locks(tracer.world)
        self.errors = Errors(tracer.world)
        self.generators: list[weakref.ref[Any]] = []
        self.references: list[weakref.ref[Any]] = []  # the program's own, to what it made
        self.abandoned = Abandoned(tracer)
        self._noted: dict[int, weakref.ref[Any]] = {}  # the same by id
        self.cached_at: dict[types.CodeType, int] = {}  # when one behind a cache was called
        self.made_at: dict[int, int] = {}  # in which step a generator was made, by id
        self.decimals = Decimals(self.world)
        self.context: dict[int, Any] = {}  # values of context variables, by their id
        self.context_before: dict[int, Any] = {}
        self._rules: dict[int, leaves.Rule | None] = {}
        self._contracts: dict[int, Contract | None] = {}
        self._called: set[int] = set()
        self._alive: list[Any] = []
        self.made_caches: set[int] = set()  # ids of what `functools.lru_cache` made in the trace
        self.once: list[Once] = []  # calls of functions with a cache
        self.lent: dict[int, Answer] = {}  # what can be changed among their answers, by id
        self.caches: dict[int, Answers] = {}  # guards on what they hold
        self.answers: dict[Any, Any] = {}
        self.warned: set[tuple[Any, ...]] = set()  # what was shown since the filters changed
        self.filters_mutated = False

    def changed(self) -> list[Any]:
        """What the program has changed so far: equal to an earlier answer if nothing is new."""
        return changes.written(self.tracer)

    # ------------------------------------------------------------------ the kinds of callables

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        while True:
            mark = marks.of(callable)
            if mark is not None:
                return self.marked(frame, mark, callable, args, kwnames)
            cls = type(callable)
            if self.tensors.own.draws.handles(callable):
                return self.tensors.own.draws.call(frame, callable, *_split(args, kwnames))
            if self.arrays.handles(callable, args):
                return self.arrays.call(frame, callable, *_split(args, kwnames))
            if cls is types.FunctionType:
                return self.function(frame, callable, args, kwnames)
            if cls is types.MethodType:
                args = [callable.__self__, *args]
                callable = callable.__func__
            elif _NATIVE.holds(cls):
                return self.native(frame, callable, args, kwnames)
            elif objects.is_subtype(cls, type):
                return self.construct(frame, callable, args, kwnames)
            elif cls is functools.partial:
                args, kwnames = _unpack_partial(callable, args, kwnames)
                callable = callable.func
            elif cls is functools._lru_cache_wrapper and id(callable) in self.made_caches:
                self.values.ready(args, Depth.DEEP, calls=True)  # they are hashed
                return self._native_call(frame, callable, args, kwnames)
            elif cls is functools._lru_cache_wrapper:
                # The cache would keep objects of the trace, and answers of another one.
                cache, callable = callable, cached_behind(self.world, callable)
                if type(callable) is types.FunctionType:
                    packed = _packed(args, kwnames)
                    answer = known(self, cache, *packed)
                    if answer is not MISSING:
                        return answer
                    self.cached_at[once.__code__] = self.tracer.steps - 1
                    return self.function(frame, once, [cache, callable, *packed], None)
            elif cls is CompiledFunction:
                callable = compiled_behind(self.world, callable)
            elif cls is weakref.ref and not args:
                return referent(self, callable)
            elif cls is staticmethod:
                callable = callable.__func__
            elif GETTERS.holds(cls) and len(args) == 1 and not kwnames:
                callable, given = twin(self, callable)
                args = [given, *args]
            else:
                rule = self.rule(callable)
                if rule is not None:
                    return self.tensors.apply(frame, rule, callable, *_split(args, kwnames))
                method = self.world.class_attribute(cls, "__call__")
                if method is not None and type(method.value) is types.MemberDescriptorType:
                    # What is called is in a slot of the object, as in a compiled module.
                    callable = self.tracer.getattr(frame, callable, "__call__")
                    continue
                if method is None:
                    return core.call(frame, callable, args, kwnames)  # raises
                base = objects.layout_base(cls)
                if _is_c_type(method.owner, "partial"):
                    self.values.ready(callable, Depth.SHALLOW, attributes=True)
                    args, kwnames = _unpack_partial(callable, args, kwnames, method.owner)
                    callable = _field(method.owner, "func")(callable)
                    continue
                if _is_c_type(base, "_lru_cache_wrapper"):
                    if id(callable) in self.made_caches:
                        self.values.ready(args, Depth.DEEP, calls=True)  # they are hashed
                        return self._native_call(frame, callable, args, kwnames)
                    callable = self.tracer.getattr(frame, callable, "__wrapped__")
                    continue
                if type(method.value) is not types.FunctionType:
                    return self.native(frame, callable, args, kwnames)
                self.world.know(method.value)
                args = [callable, *args]
                callable = method.value

    def marked(
        self,
        frame: Frame,
        mark: marks.Mark,
        callable: Any,
        args: list[Any],
        kwnames: tuple[str, ...] | None,
    ) -> Any:
        """A call of something about which the user has said what to do."""
        positional, keywords = _split(args, kwnames)
        match mark.kind:
            case marks.Kind.SUBSTITUTE:
                return self.call(frame, mark.substitute, args, kwnames)
            case marks.Kind.ALLOW:
                return self.tensors.record(frame, callable, positional, keywords)
            case marks.Kind.CONSTANT:
                return self._constant_result(callable, positional, keywords)
        if is_for_dynamo(frame, mark):
            return None
        name = getattr(callable, "__qualname__", "the function")
        reason = mark.message(name, positional, keywords)
        skips = mark.kind is marks.Kind.SKIP
        signal = MARKED[mark.kind](reason, whole=skips)
        signal.asked = skips
        raise signal

    def _constant_result(self, callable: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not all(CONSTANTS.holds(type(value)) for value in (*args, *kwargs.values())):
            raise MarkMisfit("a function with an assumed constant result gets more than constants")
        with torch._C.DisableTorchFunction():
            try:
                result = callable(*args, **kwargs)
            except Exception as error:
                core.raise_user(error)
        return self.tracer.world.wrap(result, Fixed(result))

    def call_ex(self, frame: Frame, callable: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        cls = type(args)
        if cls is not tuple and cls is not list:
            if self.tensors.holds(cls):
                args = tuple(self.tensors.iter(frame, args))
            else:
                special = objects.lookup(cls, "__iter__") or objects.lookup(cls, "__getitem__")
                if special is None:
                    return NULL
                args = self.tracer.texts.collected(frame, args)
        else:
            self.values.ready(args, Depth.SHALLOW)
        positional = list(args)
        if kwargs is not None:
            self.values.ready(kwargs, Depth.SHALLOW)  # before it is looked at: it may be a shadow
        if not kwargs:
            return self.call(frame, callable, positional, None)
        if any(type(key) is not str for key in kwargs):
            return core.call_ex(frame, callable, args, kwargs)  # raises
        return self.call(
            frame, callable, [*positional, *dict.values(kwargs)], tuple(dict.keys(kwargs))
        )

    # ------------------------------------------------------------------ Python functions

    def rule(self, callable: Any) -> leaves.Rule | None:
        """torch's rule for a callable, None if it is not torch's."""
        key = id(callable)
        if key not in self._rules:
            self._alive.append(callable)
            cls = type(callable)
            known = _NATIVE.holds(cls) or cls is types.FunctionType or objects.is_subtype(cls, type)
            if not known:
                # Asking any other object what it is could run its code.
                known = str(_module_of(cls)).startswith("torch.")
            self._rules[key] = leaves.classify(callable) if known else None
        return self._rules[key]

    def evaluate_always(self, function: Any) -> None:
        """From now on it is no leaf, but Python code as any other."""
        self.rule(function)
        self._rules[id(function)] = leaves.EVALUATE

    def _answered(
        self,
        frame: Frame,
        callable: Any,
        args: list[Any],
        kwnames: tuple[str, ...] | None,
        rule: leaves.Rule | None,
    ) -> Any:
        """What torch's rule or a handler of ours makes of a call; MISSING if neither is for it."""
        if rule is not None and rule.kind is not leaves.Kind.EVALUATE:
            return self.tensors.apply(frame, rule, callable, *_split(args, kwnames))
        handler = SPECIAL.get(id(callable))
        if handler is not None:
            return handler(self, frame, callable, *_split(args, kwnames))
        return MISSING

    def function(
        self, frame: Frame, function: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        answered = self._answered(frame, function, args, kwnames, self.rule(function))
        if answered is not MISSING:
            return answered
        contract = self.contract(function)
        if contract is not None:
            # Asked for real, with everything it calls: what it tells is a constant.
            positional, keywords = _split(args, kwnames)
            self.values.ready((positional, keywords), Depth.DEEP)
            asked = functools.partial(function, **keywords) if keywords else function
            return core.call_native(frame, asked, *positional)
        behind = function_behind(self, frame, function)
        if behind is not None:
            return self.call(frame, behind, args, kwnames)
        drawn = self.tensors.own.draws.drawn.call(self, frame, function, *_split(args, kwnames))
        if drawn is not MISSING:
            return drawn
        return self._evaluate(frame, function, args, kwnames)

    def evaluated(
        self, frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A Python function that has a handler, evaluated all the same."""
        return self._evaluate(frame, function, [*args, *kwargs.values()], tuple(kwargs) or None)

    def _evaluate(
        self, frame: Frame, function: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        try:
            result = core.call(frame, function, args, kwnames)
        except TypeError:  # its parameters, and their defaults, say that the arguments don't fit
            if id(function) not in self.made:
                guard_misfit(self.world, self.world.know(function))
            raise
        if type(result) is Frame:
            self.admit(result, function)
        else:
            self.note(result)
        return result

    def ours(self, function: Any) -> None:
        """A function of the tracer itself is evaluated: nothing about it is guarded."""
        self._called.add(id(function))
        self.world.know(function)

    def note(self, value: Any) -> None:
        """Generators made in the trace are closed at its end."""
        if GENERATORS.holds(type(value)) and not self.world.is_world(value):
            known = self._noted.get(id(value))
            if known is None or known() is not value:
                self._noted[id(value)] = reference = weakref.ref(value)
                self.generators.append(reference)
                self.made_at[id(value)] = self.tracer.steps - 1
                self.abandoned.held.append(value)

    def admit(self, frame: Frame, function: Any) -> None:
        """A frame begins: parameters that took their defaults hold raw world objects."""
        if id(function) in self.made:
            return
        self.know_function(function)
        wrap_defaults(self.world, frame, function)

    def know_function(self, function: Any) -> None:
        """A function of the world is called: what it does is guarded, once."""
        if id(function) in self.made or id(function) in self._called:
            return
        self._called.add(id(function))
        self._alive.append(function)
        self.world.know(function)
        guard_function(self.world, function)

    def answer_frame(self, frame: Frame) -> bool:
        """A frame that C code has started: a leaf of torch is answered instead of evaluated."""
        function = frame.function
        mark = marks.of(function)
        if mark is not None:
            args, kwargs = _arguments(frame)
            result = self.marked(frame, mark, function, [*args, *kwargs.values()], tuple(kwargs))
            if type(result) is Frame:
                raise MarkMisfit("a substituted function is called by C code")
            frame.result = result
            frame.finish()
            return True
        text = self.tracer.texts.answer(frame)
        if text is not None:
            frame.result = text
            frame.finish()
            return True
        rule = self.rule(function)
        if rule is not None and rule.kind is not leaves.Kind.EVALUATE:
            args, kwargs = _arguments(frame)
            frame.result = self.tensors.apply(frame, rule, function, args, kwargs)
            frame.finish()
            return True
        if function is _SLOTNAMES:  # asked by `object.__reduce_ex__`
            args, kwargs = _arguments(frame)
            frame.result = SPECIAL[id(function)](self, frame, function, args, kwargs)
            frame.finish()
            return True
        if function.__module__ in _SYMBOL_MODULES and function.__qualname__.startswith(
            _SYMBOL_NAMES
        ):
            args, _ = _arguments(frame)
            frame.result = self.tensors.scalars.method(frame, function, args)
            frame.finish()
            return True
        if function.__name__ in _DESCRIPTOR_METHODS and frame.code.co_argcount > 1:
            holders = [frame[i] for i in range(1, min(frame.code.co_argcount, 3))]
            frame[0] = self.tracer.descriptor(frame[0], *holders)
        self.admit(frame, function)
        return False

    # ------------------------------------------------------------------ C callables

    def contract(self, callable: Any) -> Contract | None:
        """The contract of a C callable; bound ones are looked up each time."""
        kept = type(callable) is types.BuiltinFunctionType and not GENERATORS.holds(
            type(callable.__self__)
        )
        if kept or _UNBOUND.holds(type(callable)):
            key = id(callable)
            if key not in self._contracts:
                self._alive.append(callable)
                self._contracts[key] = contracts.lookup(callable)
            return self._contracts[key]
        return contracts.lookup(callable)

    def native(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """A call of C code."""
        cls = type(callable)
        bound: Any = None
        is_bound = False
        if cls is types.MethodWrapperType:
            # super().__setattr__ and the like: the slot itself, with the object in front.
            owner = _wrapper_class(callable)
            slot = objects.type_dict(owner).get(callable.__name__)
            if slot is not None:
                args, callable = [callable.__self__, *args], slot
        elif cls is types.BuiltinFunctionType:
            bound = callable.__self__
            if is_lock(type(bound)):
                return self.locks.call(bound, callable.__name__, args)
            if id(callable) in self.world.opaque:
                raise OpaqueObject(f"{describe(callable)}, bound before the call, is called")
            is_bound = bound is not None and type(bound) is not types.ModuleType
        rule: leaves.Rule | None
        if is_bound and type(bound) is FakeTensor:
            rule = leaves.classify(callable)
        elif is_bound and GENERATORS.holds(type(bound)):
            rule = None  # what is looked up is kept, and so would be the generator
        else:
            rule = self.rule(callable)
        answered = self._answered(frame, callable, args, kwnames, rule)
        if answered is not MISSING:
            return answered
        if is_bound:
            member = objects.lookup(type(bound), callable.__name__)
            handler = None if member is None else SPECIAL.get(id(member.value))
            if handler is not None:
                positional, keywords = _split(args, kwnames)
                return handler(self, frame, callable, [bound, *positional], keywords)
            if _is_c_type(type(bound), "_lru_cache_wrapper") and id(bound) in self.made_caches:
                return core.call(frame, callable, args, kwnames)  # a cache of the program's own
        contract = self.contract(callable)
        if contract is None and _is_value_method(callable):
            contract = _PURE
        if contract is None and is_decimal(callable):  # context managers, dicts of signals
            contract = contracts.lookup(decimal.getcontext)
        if contract is None:
            raise UnknownCFunction(
                f"no contract says what the C function {describe(callable)} does"
            )
        return self.run(frame, callable, args, kwnames, contract, (bound,) if is_bound else ())

    def run(
        self,
        frame: Frame,
        callable: Any,
        args: list[Any],
        kwnames: tuple[str, ...] | None,
        contract: Contract,
        bound: tuple[Any, ...] = (),
    ) -> Any:
        """Runs C code under its contract."""
        texts = self.tracer.texts
        if not texts.open and makes_text(callable):
            with texts.window():
                result = self.run(frame, callable, args, kwnames, contract, bound)
            return texts.split(frame, result)
        if contract.verdict is Verdict.FORBIDDEN:
            assert contract.reason is not None
            if contract.reason is contracts.Reason.HIDDEN_STATE and is_decimal(callable):
                self.decimals.begin()
                for value in (*bound, *args):
                    self.values.ready(value, Depth.DEEP, calls=not is_decimal(type(value)))
                return self.result(callable, self._native_call(frame, callable, args, kwnames))
            kind = FORBIDDEN[contract.reason]
            raise kind(f"{describe(callable)} {contract.reason.value}")
        offset = len(bound)
        if not offset and _is_callable_object(type(callable)):
            bound, offset = (callable,), 1  # it is its own argument 0
        keywords = len(kwnames or ())
        positional = len(args) - keywords
        by_key = id(callable) in _BY_KEY  # called is what is given by keyword
        specialized = not (texts.open or _has_own_new(callable))
        applies = id(callable) in _APPLIERS or (bool(bound) and type(bound[0]) is list)
        for index, value in enumerate((*bound, *args)):
            given = index - offset
            spec = contract.keywords if given >= positional else contract.argument(index)
            applied = applies and given >= 0 and (given >= positional or not by_key)
            if spec.called and applied and objects.lookup(type(value), "__call__") is not None:
                args[given] = self.callee(value)
                continue
            if CONSTANTS.holds(type(value)):
                continue
            needed = specialized and spec.symint is not SymInt.PASS
            if needed and type(value) is torch.SymInt and given >= 0:
                known = self.tensors.scalars.speculation.number(frame, value)
                if known is not None:
                    args[given] = known
                    continue
            if spec.mutated and self.arrays.holds(type(value)):
                raise ArrayChanged(f"{describe(callable)} changes a numpy array")
            self.values.ready(
                value, spec.depth, attributes=spec.attributes, calls=contract.calls_back
            )
            if needed and self.tensors.has_symbols(value, spec.depth):
                value = self.tensors.shapes.fixed(frame, value)
                if self.tensors.has_symbols(value, spec.depth):
                    raise ValueNeeded(f"{describe(callable)} needs a number that depends on values")
                if given >= 0:
                    args[given] = value
            if spec.hashed:
                self.world.hashed(value)
            if spec.mutated:
                self.world.touch(value)
            if spec.mutated and self.world.is_world(value) and id(value) not in self.world.records:
                raise OpaqueObject(
                    f"{describe(callable)} changes an object of type {type(value).__qualname__} "
                    f"that existed before the call"
                )
        return self.result(callable, self._native_call(frame, callable, args, kwnames))

    def _native_call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """CPython's call; torch calls that C code makes meanwhile are on behalf of this frame."""
        outer, self.tensors.frame = self.tensors.frame, frame
        making = self.world.making
        name = _class_name(callable, args)
        if name is not None:
            making.append(name)
        try:
            chosen = self._filters()
            if chosen is not None:
                with warned.applied(chosen):
                    return core.call(frame, callable, args, kwnames)
            return core.call(frame, callable, args, kwnames)
        finally:
            self.tensors.frame = outer
            if name is not None:
                making.pop()

    def _filters(self) -> list[Any] | None:
        """The warning filters that the program has put in place, if it has."""
        record = self.tracer.known_namespace(warnings.__dict__)
        if record is None:
            return None
        held = record.shadow if record.filled else record.items
        chosen = dict.get(held, "filters")
        if type(chosen) is not list or chosen is self.world.stand_ins.get(id(warned.filters())):
            return None
        self.values.ready(chosen, Depth.DEEP)
        return chosen

    def callee(self, value: Any) -> Any:
        """A callable that C code will call: what it does goes through the tracer, too."""
        cls = type(value)
        if cls is types.FunctionType or value is None:
            return value
        if cls is types.MethodType and type(value.__func__) is types.FunctionType:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            return value(*args, **kwargs)

        self.made[id(call)] = call  # type: ignore[assignment]
        self.stand_ins[id(call)] = value
        return call

    def result(self, callable: Any, result: Any) -> Any:
        """What C code has made or found."""
        cls = type(result)
        if CONSTANTS.holds(cls):
            return result
        self.note(result)
        made = objects.is_subtype(type(callable), type)
        if made and _is_c_type(objects.layout_base(cls), "_lru_cache_wrapper"):
            self.made_caches.add(id(result))
            self.world.keep(result)
        if cls is types.FunctionType:
            if callable is types.FunctionType and id(result) not in self.world.origins:
                self.made[id(result)] = result
        elif objects.is_subtype(cls, type) and id(callable) in _CLASS_MAKERS:
            self.world.made_classes.add(id(result))
            self.world.keep(result)
        known = self.world.stand_ins.get(id(result))
        return result if known is None else known

    # ------------------------------------------------------------------ classes

    def construct(
        self, frame: Frame, cls: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """A class is called."""
        answered = self._answered(frame, cls, args, kwnames, self.rule(cls))
        if answered is not MISSING:
            return answered
        if objects.is_subtype(cls, torch.Tensor):
            return self.tensors.subclasses.construct(frame, cls, *_split(args, kwnames))
        if not is_python_class(cls):
            contract = self.contract(cls)
            if contract is None:
                raise UnknownCFunction(f"no contract says what the C class {describe(cls)} does")
            return self.run(frame, cls, args, kwnames, contract)
        if objects.lookup(cls, "__del__") is not None:
            # A variable of a continuation lives as long as its call, not until it is deleted.
            reason = f"an object of class {cls.__qualname__} is made, which has a finalizer"
            raise Finalizer(reason, whole=True)
        self.world.protocol(cls, ("__new__", "__init__"))
        self.world.protocol(type(cls), ("__call__",))
        base = objects.layout_base(cls)
        if base is not object:
            contract = self.contract(base)
            if contract is None:
                raise UnknownCFunction(f"no contract says what the C class {describe(base)} does")
            return self.run(frame, cls, args, kwnames, contract)
        result = self._native_call(frame, cls, args, kwnames)
        if objects.is_subtype(cls, type):
            self.world.made_classes.add(id(result))
            self.world.keep(result)
        return result


def _has_own_new(callable: Any) -> bool:
    """A class that is made by Python code: a named tuple, in particular."""
    if not objects.is_subtype(type(callable), type):
        return False
    found = objects.lookup(callable, "__new__")
    return found is not None and is_python_class(found.owner)


_PURE: Final = Contract(Verdict.READS, (contracts.Argument(Depth.SHALLOW),), False, False, None)


def _is_value_method(callable: Any) -> bool:
    """A method of torch.Size, torch.dtype …: immutable values."""
    owner = getattr(callable, "__objclass__", None)
    if owner is None:
        owner = type(getattr(callable, "__self__", None))
    return is_torch_value(owner)


_BUILD_CLASS: Final = builtins.__build_class__
_CLASS_MAKERS: Final = frozenset(map(id, (_BUILD_CLASS, type, type.__new__)))
_SLOTNAMES: Final = copyreg._slotnames  # type: ignore[attr-defined]
_TYPE_NEW: Final = type.__new__


def _class_name(callable: Any, args: list[Any]) -> str | None:
    """The name of the class that a call is about to make, if it makes one."""
    if callable is _BUILD_CLASS or callable is _TYPE_NEW:
        name = args[1] if len(args) > 1 else None
    elif objects.is_subtype(type(callable), type) and objects.is_subtype(callable, type):
        name = args[0] if len(args) > 1 else None
    else:
        return None
    return name if type(name) is str else None


def _split(args: list[Any], kwnames: tuple[str, ...] | None) -> tuple[list[Any], dict[str, Any]]:
    if not kwnames:
        return args, {}
    count = len(args) - len(kwnames)
    return args[:count], dict(zip(kwnames, args[count:], strict=True))


def _packed(args: list[Any], kwnames: tuple[str, ...] | None) -> list[Any]:
    positional, keywords = _split(args, kwnames)
    return [tuple(positional), keywords]


def _unpack_partial(
    partial: Any, args: list[Any], kwnames: tuple[str, ...] | None, cls: type = functools.partial
) -> tuple[list[Any], tuple[str, ...] | None]:
    positional, keywords = _split(args, kwnames)
    merged = {**_field(cls, "keywords")(partial), **keywords}
    return [*_field(cls, "args")(partial), *positional, *merged.values()], tuple(merged) or None


def _field(cls: type, name: str) -> Any:
    """Reads a C field of an object, past attributes of its class."""
    return objects.type_dict(cls)[name].__get__


def _is_c_type(cls: type, name: str) -> bool:
    """Whether a type is this one of functools, perhaps made by a second import of `_functools`."""
    return (
        not is_python_class(cls)
        and _module_of(cls) == "functools"
        and type.__dict__["__name__"].__get__(cls) == name
    )


def _arguments(frame: Frame) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with which a frame was called, from its parameters."""
    code = frame.code
    count = code.co_argcount
    args = [frame[index] for index in range(count)]
    position = count + code.co_kwonlyargcount
    kwargs = {code.co_varnames[i]: frame[i] for i in range(count, position)}
    if code.co_flags & 0x04:
        args += frame[position]
        position += 1
    if code.co_flags & 0x08:
        kwargs.update(frame[position])
    return args, kwargs
