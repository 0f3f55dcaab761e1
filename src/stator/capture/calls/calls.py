"""Calls in a trace: what is evaluated, recorded, run by CPython, and what ends the trace.

Stage: capture. In: a callable of any kind with its arguments. Out: a pushed frame (Python
functions, `python_calls.py`), a graph node (torch's leaves), or the result of C code that a
contract allows (`native_calls.py`). Here it is decided which of them it is.
"""

import functools
import re
import types
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import NULL, CompiledFunction, Frame, is_python_class
from stator.capture.calls import held_callables, marks, scripts, whole_calls
from stator.capture.calls.arguments import field, is_functools_type, pack, split, unpack_partial
from stator.capture.calls.caches import Answer, Answers, Once, known, once
from stator.capture.calls.controls import (
    Errors,
    compiles_itself,
    function_behind,
    is_for_dynamo,
)
from stator.capture.calls.getters import GETTERS, twin
from stator.capture.calls.handlers import HANDLERS
from stator.capture.calls.native_calls import (
    NATIVE,
    call_c,
    contract_of,
    contract_of_class,
    contract_of_function,
    describe,
    run,
)
from stator.capture.calls.python_calls import evaluate, stand_in, standing
from stator.capture.calls.scripts import SCRIPT, scripted_behind
from stator.capture.calls.single_dispatch import implementation, is_dispatch, registry
from stator.capture.calls.straight import Straight
from stator.capture.calls.wrapped_functions import cached_behind, compiled_behind
from stator.capture.communication.groups import Groups
from stator.capture.iterators.abandoned_generators import Abandoned
from stator.capture.iterators.coroutines import Coroutines
from stator.capture.library.contexts import Contexts
from stator.capture.library.decimals import Decimals
from stator.capture.library.files import Files
from stator.capture.library.locks import Locks, is_lock
from stator.capture.library.memory_streams import FINALIZED, IN_MEMORY, STREAMS, Streams
from stator.capture.modules.module_calls import CALL
from stator.capture.objects import changes, torch_values
from stator.capture.objects.weak_callbacks import Deaths
from stator.capture.objects.weak_references import check_forgotten, is_reference, referent
from stator.capture.randomness.draws import is_generator_method
from stator.capture.regions.nested import Regions
from stator.capture.trace.refusals import MARKED
from stator.contracts import Contract, Depth
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import (
    Finalizer,
    MarkMisfit,
    OpaqueObject,
)
from stator.graph.leaves import leaves
from stator.guards import Fixed
from stator.objects.types import Attribute, module_of
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import BUILTIN_METHOD, CONSTANTS, is_torch_value

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_METHODS: Final = objects.TypeSet(
    types.MethodType, types.BuiltinMethodType, types.MethodWrapperType
)
_TEMPLATES: Final = vars(re).get("_compile_repl")  # of `re.sub`, up to Python 3.11
_wrapper_class: Final = types.MethodWrapperType.__dict__["__objclass__"].__get__


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
        self.noted: dict[int, weakref.ref[Any]] = {}  # the same by id
        self.references: list[weakref.ref[Any]] = []  # the program's own, to what it made
        self.abandoned = Abandoned(tracer)
        self.deaths = Deaths(self)
        self.world.weakly = functools.partial(check_forgotten, self)
        self.standing: dict[int, tuple[Frame, int]] = {}  # see `stand_in`; and when it was called
        self.made_at: dict[int, int] = {}  # in which step a generator or class was made
        self.decimals = Decimals(self.world)
        self.contexts = Contexts(self)
        self.coroutines = Coroutines()
        self.files = Files()
        self.streams = Streams(self)
        self.regions = Regions(self)
        self.whole_calls = whole_calls.Whole()
        self.groups = Groups(tracer.world)
        self.pending: list[Any] = []  # handles of collectives that were begun
        self.whole = False  # there is to be one graph: a break is an error
        self._rules: dict[int, leaves.Rule | None] = {}
        self._straight = Straight(tracer.tensors)
        self.contracts: dict[int, Contract | None] = {}
        self.called: set[int] = set()  # ids of functions about which all is guarded
        self.made_caches: set[int] = set()  # ids of what `functools.lru_cache` made in the trace
        self.once: list[Once] = []  # calls of functions with a cache
        self.selection: Any = None  # of the checkpoint that is about to run
        self.later = 0  # code is evaluated that runs in the backward
        self.shows = 0  # texts that the graph shows, so far
        self.logs = False  # the graph shows gradients
        self.watched: list[tuple[Any, int, Any]] = []  # of these, made at a step, at places
        self.told: dict[int, tuple[Any, int]] = {}  # objects with known addresses, and since when
        self.lent: dict[int, Answer] = {}  # what can be changed among their answers, by id
        self.caches: dict[int, Answers] = {}  # guards on what they hold
        self.answers: dict[Any, tuple[Any, Any]] = {}  # with what the cache was given
        self.held_answers: set[int] = set()  # those that the caches hold
        self.warned: set[tuple[Any, ...]] = set()  # what was shown since the filters changed
        self.filters_mutated = False

    def changed(self) -> list[Any]:
        """What the program has changed so far: equal to an earlier answer if nothing is new."""
        return changes.written(self.tracer)

    def check_held(self, value: Any) -> None:
        """C code is about to call what this object holds."""
        refused = held_callables.refused(self, value)
        if refused is not None:
            raise refused

    # ------------------------------------------------------------------ the kinds of callables

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        while True:
            result = self._straight.call(frame, callable, args, kwnames)
            if result is not MISSING:
                return result
            mark = marks.of(callable)
            if mark is not None:
                return self.marked(frame, mark, callable, args, kwnames)
            cls = type(callable)
            if is_generator_method(callable):
                return self.tensors.own.draws.call(frame, callable, *split(args, kwnames))
            if self.arrays.handles(callable, args):
                return self.arrays.call(frame, callable, *split(args, kwnames))
            if cls is types.FunctionType:
                return self.function(frame, callable, args, kwnames)
            bound = getattr(callable, "__self__", None) if _METHODS.holds(cls) else None
            if bound is not None and is_torch_value(type(bound)):
                given, named = split(args, kwnames)
                if torch_values.may_run(callable, given, named):
                    return torch_values.run(self.world, callable, given, named)
            if cls is types.MethodType:
                args = [callable.__self__, *args]
                callable = callable.__func__
            elif NATIVE.holds(cls):
                return self.native(frame, callable, args, kwnames)
            elif objects.is_subtype(cls, type):
                return self.construct(frame, callable, args, kwnames)
            elif cls is functools.partial:
                args, kwnames = unpack_partial(callable, args, kwnames)
                callable = callable.func
            elif cls is functools._lru_cache_wrapper and id(callable) in self.made_caches:
                self.values.ready(args, Depth.DEEP, calls=True)  # they are hashed
                return call_c(self, frame, callable, args, kwnames)
            elif cls is functools._lru_cache_wrapper:
                # The cache would keep objects of the trace, and answers of another one.
                cache, callable = callable, cached_behind(self.world, callable)
                if cache is _TEMPLATES:
                    continue  # it speeds up, and answers nothing else than the parser
                if type(callable) is types.FunctionType:
                    packed = pack(args, kwnames)
                    answer = known(self, cache, *packed)
                    if answer is not MISSING:
                        return answer
                    return stand_in(self, frame, once, [cache, callable, *packed], None)
            elif cls is CompiledFunction:
                callable = compiled_behind(self.world, callable)
            elif cls is SCRIPT:
                packed = pack(args, kwnames)
                behind = scripted_behind(self, callable, *packed)
                return stand_in(self, frame, scripts.run, [behind, *packed], None)
            elif not args and is_reference(self, cls):
                return referent(self, callable)
            elif cls is staticmethod:
                callable = callable.__func__
            elif GETTERS.holds(cls) and len(args) == 1 and not kwnames:
                callable, given = twin(self, callable)
                args = [given, *args]
            else:
                answered = self._answered(frame, callable, args, kwnames, self.rule(callable))
                if answered is not MISSING:
                    return answered
                method = self.world.class_attribute(cls, "__call__")
                if method is not None and type(method.value) is types.MemberDescriptorType:
                    # What is called is in a slot of the object, as in a compiled module.
                    callable = self.tracer.getattr(frame, callable, "__call__")
                    continue
                if method is None:
                    return core.call(frame, callable, args, kwnames)  # raises
                if type(method.value) is types.BuiltinFunctionType and is_python_class(cls):
                    callable = method.value  # which is not bound to the object: of a `NewType`
                    continue
                base = objects.layout_base(cls)
                if is_functools_type(method.owner, "partial"):
                    self.values.ready(callable, Depth.SHALLOW, attributes=True)
                    args, kwnames = unpack_partial(callable, args, kwnames, method.owner)
                    callable = field(method.owner, "func")(callable)
                    continue
                if is_functools_type(base, "_lru_cache_wrapper"):
                    if id(callable) in self.made_caches:
                        self.values.ready(args, Depth.DEEP, calls=True)  # they are hashed
                        return call_c(self, frame, callable, args, kwnames)
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
        positional, keywords = split(args, kwnames)
        match mark.kind:
            case marks.Kind.SUBSTITUTE:
                if leaves.module_of(mark.substitute).partition(".")[0] not in ("stator", "torch"):
                    name = getattr(callable, "__qualname__", "the function")
                    self.world.only_here(f"what stands for {name}")
                return self.call(frame, mark.substitute, args, kwnames)
            case marks.Kind.ALLOW:
                try:
                    return self.tensors.record(frame, callable, positional, keywords)
                except Break:
                    return whole_calls.whole(self, frame, callable, positional, keywords)
            case marks.Kind.NONSTRICT:
                return whole_calls.nonstrict(self, frame, callable, positional, keywords)
            case marks.Kind.LEAF:
                assert mark.leaf is not None
                return whole_calls.leaf(self, frame, mark.leaf, positional, keywords)
            case marks.Kind.CONSTANT:
                return self._constant_result(callable, positional, keywords)
        if is_for_dynamo(frame, mark):
            return None
        if mark.kind is marks.Kind.DISABLE and compiles_itself(frame, callable, positional):
            return positional[0]
        name = getattr(callable, "__qualname__", "the function")
        reason = mark.message(name, positional, keywords)
        skips = mark.kind is marks.Kind.SKIP
        signal = MARKED[mark.kind](reason, whole=skips)
        signal.asked = skips
        raise signal

    def _constant_result(self, callable: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not all(CONSTANTS.holds(type(value)) for value in (*args, *kwargs.values())):
            raise MarkMisfit("a function with an assumed constant result gets more than constants")
        with DisableTorchFunction():
            try:
                result = callable(*args, **kwargs)
            except Exception as error:
                core.raise_user(error)
        name = getattr(callable, "__qualname__", "the function")
        self.world.only_here(f"what {name} answers, which is taken for constant")
        return self.tracer.world.wrap(result, Fixed(result, f"{name}()"))

    def call_ex(self, frame: Frame, callable: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        cls = type(args)
        if cls is not tuple and cls is not list:
            if self.tensors.holds(cls):
                args = tuple(self.tensors.iter(frame, args))
            else:
                special = objects.lookup(cls, "__iter__") or objects.lookup(cls, "__getitem__")
                if special is None:
                    return NULL
                args = self.tracer.texts.collected(frame, self.tracer.ahead.given(args))
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

    def rule(self, callable: Any) -> leaves.Rule | None:
        """torch's rule for a callable, None if it is not torch's."""
        key = id(callable)
        if key not in self._rules:
            if key in self.made:  # it may die while the trace goes on
                return leaves.classify(callable)
            cls = type(callable)
            known = NATIVE.holds(cls) or cls is types.FunctionType or objects.is_subtype(cls, type)
            if not known and not str(module_of(cls)).startswith("torch."):
                return None  # asking it what it is could run its code; and it may die, too
            self.world.keep(callable)
            self._rules[key] = leaves.classify(callable)
        return self._rules[key]

    def is_special(self, function: Any) -> bool:
        """Whether a handler of ours stands for a function."""
        return id(function) in HANDLERS

    def evaluate_always(self, function: Any) -> None:
        """From now on it is no leaf, but Python code as any other."""
        self.world.keep(function)
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
            if rule.kind is leaves.Kind.FORBIDDEN and compiles_itself(frame, callable, args):
                return args[0]
            if rule.kind is leaves.Kind.RECORD:
                self._straight.learn(callable)
            return self.tensors.apply(frame, rule, callable, *split(args, kwnames))
        handler = HANDLERS.get(id(callable))
        if handler is not None:
            return handler(self, frame, callable, *split(args, kwnames))
        return MISSING

    # ------------------------------------------------------------------ functions and classes

    def function(
        self, frame: Frame, function: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        if self.regions.auto and function is CALL:
            found = self.regions.module(frame, args, kwnames)
            if found is not MISSING:
                return found
        if self.tensors.wrappers.makes(function):
            return self.tensors.wrappers.call(frame, function, *split(args, kwnames))
        rule = self.rule(function)
        answered = self._answered(frame, function, args, kwnames, rule)
        if answered is not MISSING:
            return answered
        contract = contract_of(self, function)
        if contract is not None:
            # Asked for real, with everything it calls: what it tells is a constant.
            self.world.only_here(f"what {function.__qualname__} answers")
            positional, keywords = split(args, kwnames)
            self.values.ready((positional, keywords), Depth.DEEP)
            asked = functools.partial(function, **keywords) if keywords else function
            return core.call_native(frame, asked, *positional)
        behind = function_behind(self, frame, function)
        if behind is not None:
            return self.call(frame, behind, args, kwnames)
        if is_dispatch(self, function):
            given = [registry(self, frame, function), *args]
            return stand_in(self, frame, implementation, given, kwnames)
        drawn = self.tensors.own.draws.drawn.call(self, frame, function, *split(args, kwnames))
        if drawn is not MISSING:
            return drawn
        result = evaluate(self, frame, function, args, kwnames)
        if rule is not None and leaves.is_compiled_otherwise(function):
            standing(self, result)
        return result

    def native(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """A call of C code."""
        cls = type(callable)
        bound: Any = None
        is_bound = False
        if cls is types.MethodWrapperType:
            if id(callable) in self.world.opaque:
                what = f"{describe(callable)}, bound before the call, is called"
                raise OpaqueObject(what).about(self.world.origins.get(id(callable)))
            # super().__setattr__ and the like: the slot itself, with the object in front.
            owner = _wrapper_class(callable)
            slot = objects.type_dict(owner).get(callable.__name__)
            if slot is not None:
                args, callable = [callable.__self__, *args], slot
        elif cls is types.BuiltinFunctionType or cls is BUILTIN_METHOD:
            bound = callable.__self__
            if is_lock(type(bound)):
                return self.locks.call(bound, callable.__name__, args)
            if self.files.may_run(bound, callable.__name__, args):
                return call_c(self, frame, callable, args, kwnames)
            if self.streams.may_run(frame, bound, callable.__name__, args):
                return call_c(self, frame, callable, args, kwnames)
            if id(callable) in self.world.opaque:
                what = f"{describe(callable)}, bound before the call, is called"
                raise OpaqueObject(what).about(self.world.origins.get(id(callable)))
            is_bound = bound is not None and type(bound) is not types.ModuleType
        # What is looked up by `rule` is kept, and so would be what it is bound to.
        rule = leaves.classify(callable) if is_bound else self.rule(callable)
        answered = self._answered(frame, callable, args, kwnames, rule)
        if answered is not MISSING:
            return answered
        if is_bound:
            member = _method(bound, callable.__name__)
            handler = None if member is None else HANDLERS.get(id(member.value))
            if handler is not None:
                positional, keywords = split(args, kwnames)
                answered = handler(self, frame, callable, [bound, *positional], keywords)
                if answered is not MISSING:
                    return answered
            is_cache = is_functools_type(type(bound), "_lru_cache_wrapper")
            if is_cache and id(bound) in self.made_caches:
                return core.call(frame, callable, args, kwnames)  # a cache of the program's own
        contract = contract_of_function(self, callable)
        return run(self, frame, callable, args, kwnames, contract, (bound,) if is_bound else ())

    def construct(
        self, frame: Frame, cls: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """A class is called."""
        if is_torch_value(cls) and torch_values.may_make(cls, *split(args, kwnames)):
            return torch_values.run(self.world, cls, *split(args, kwnames))
        if self.tensors.wrappers.concerns(cls):
            return self.tensors.wrappers.construct(frame, cls, *split(args, kwnames))
        answered = self._answered(frame, cls, args, kwnames, self.rule(cls))
        if answered is not MISSING:
            return answered
        if objects.is_subtype(cls, torch.Tensor):
            return self.tensors.subclasses.construct(frame, cls, *split(args, kwnames))
        if STREAMS.holds(cls):
            return self.streams.make(frame, cls, args, kwnames)
        if not is_python_class(cls):
            return run(self, frame, cls, args, kwnames, contract_of_class(self, cls))
        if objects.lookup(cls, "__del__") is not None and not self._is_in_memory(cls):
            # A variable of a continuation lives as long as its call, not until it is deleted.
            reason = f"an object of class {cls.__qualname__} is made, which has a finalizer"
            raise Finalizer(reason, whole=True)
        self.world.protocol(cls, ("__new__", "__init__"))
        self.world.protocol(type(cls), ("__call__",))
        base = objects.layout_base(cls)
        if STREAMS.holds(base):
            return self.streams.make(frame, cls, args, kwnames)
        if base is not object:
            return run(self, frame, cls, args, kwnames, contract_of_class(self, base))
        result = call_c(self, frame, cls, args, kwnames)
        if objects.is_subtype(cls, type):
            self.world.made_classes.add(id(result))
            self.world.keep(result)
        return result

    def _is_in_memory(self, cls: type) -> bool:
        """A class of files in memory, whose finalizer is C code that closes them."""
        base = objects.layout_base(cls)
        names: tuple[str, ...] = FINALIZED
        if IN_MEMORY.holds(base):
            names = FINALIZED[:-1]  # there is nothing to flush
        elif not STREAMS.holds(base) or self.world.is_made(cls):
            return False
        found = [self.world.class_attribute(cls, name) for name in names]
        return all(each is not None and not is_python_class(each.owner) for each in found)


def _method(bound: Any, name: str) -> Attribute | None:
    """What a C method that is bound to something was taken from."""
    if objects.is_subtype(type(bound), type):
        own = objects.lookup(bound, name)
        if own is not None and type(own.value) is types.ClassMethodDescriptorType:
            return own
    return objects.lookup(type(bound), name)
