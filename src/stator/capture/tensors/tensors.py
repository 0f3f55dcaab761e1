"""Tensors in a trace: fake tensors whose operations become graph nodes.

In: operations that involve a tensor. Out: fake tensors, answers, or a `Break` where values would be
needed. A torch function mode catches the calls that C code makes on its own (`sum([t, u])`).
"""

import operator
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from torch.overrides import TorchFunctionMode

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.arrays import arrays
from stator.capture.autograd.autograd_nodes import AutogradNodes
from stator.capture.autograd.function_results import Applied
from stator.capture.autograd.grad_facts import Grads
from stator.capture.autograd.inside_transforms import Inside
from stator.capture.autograd.transform_names import asks_for_names
from stator.capture.calls.foreign_operands import Foreign, is_foreign
from stator.capture.calls.operators import ARITHMETIC, NOT_IN_PLACE
from stator.capture.calls.replaced_functions import Replaced
from stator.capture.calls.scripts import check_asked
from stator.capture.modules.always_called_hooks import asks_for_hooks
from stator.capture.numbers import ranges
from stator.capture.numbers.indexing import Indexing
from stator.capture.numbers.scalars import SYMBOLS, Scalars, is_index
from stator.capture.numbers.shapes import Shapes
from stator.capture.objects import torch_values
from stator.capture.objects.values import held, is_result_type
from stator.capture.randomness.seeds import FACTORIES, is_factory
from stator.capture.regions.leaving import left
from stator.capture.tensors.layouts import answered, check_layout
from stator.capture.tensors.leaf_views import LeafViews
from stator.capture.tensors.number_tensors import WRITTEN_OUT, written_out
from stator.capture.tensors.overrides import Overrides
from stator.capture.tensors.refused_values import Handled, may_refuse
from stator.capture.tensors.refusing_views import RefusingViews
from stator.capture.tensors.state_changes import StateChanges
from stator.capture.tensors.staying import is_held, is_static
from stator.capture.tensors.strided import (
    PLACING,
    check_resized,
    check_strided,
    placing,
    sizes_before,
)
from stator.capture.tensors.subclasses import Subclasses
from stator.capture.tensors.tensor_attributes import TensorAttributes
from stator.capture.tensors.tensor_state import TensorState
from stator.capture.tensors.wrappers import Types, Wrappers
from stator.capture.texts.numbers_in_errors import settle_handled
from stator.capture.texts.type_names import of_operands
from stator.capture.trace.budget import Budget
from stator.capture.trace.wanted import Wanted
from stator.contracts import Depth
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import (
    BranchOnValues,
    NoGraphOperation,
    TensorSubclass,
    UnusualTensor,
    ValueNeeded,
)
from stator.graph import (
    DataDependent,
    OperatorError,
    OutputGraph,
    Unsupported,
    UntrackedTensorError,
)
from stator.graph.fakes.inputs import FakeInput, tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.leaves import leaves
from stator.graph.recording.errors import Apart
from stator.graph.recording.operations import operation_of
from stator.graph.recording.state import StateRecorder
from stator.graph.unknown.scalars import take
from stator.guards import Equal, Guard, Index, Is, Source, TypeIs
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    VariableFunctions,
    pad,
)
from stator.torchlib.tensors import DisableTorchFunction, TensorBase
from stator.world import MISSING, World
from stator.world.kinds import CONSTANTS, is_torch_value

CONSTANT_TYPES: Final = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
)
_DROPOUT: Final = frozenset(
    f"{prefix}dropout{end}"
    for prefix in ("", "alpha_", "feature_")
    for end in ("", "_", "2d", "3d")
)
_NARROW: Final = (torch.narrow, ("method", "narrow"))  # may read where to start from a tensor
_LOOKED_AT: Final = _DROPOUT | WRITTEN_OUT | FACTORIES | PLACING | {"narrow", "pad"}  # by name
_NUMBERS: Final = TypeSet(
    int, float, bool, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format
)


class RecordingMode(TorchFunctionMode):
    """Records torch calls that C code makes while it runs on behalf of the program."""

    def __init__(self, tensors: "Tensors") -> None:
        super().__init__()
        self.tensors = tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.tensors.torch_function(func, args, kwargs or {})


core.mark_code(RecordingMode.__torch_function__.__code__, core.CODE_NATIVE)


class Tensors:
    """The tensors of one trace, and the graph they are recorded in."""

    def __init__(
        self, graph: OutputGraph, world: World, state: StateRecorder, wanted: Wanted | None = None
    ) -> None:
        self.graph = graph
        self.world = world
        self.state = state
        self.sources: dict[int, Source] = {}  # of inputs, by id of the real tensor
        self.inputs: dict[int, tuple[torch.Tensor, Source]] = {}  # by id of the fake
        self.state_changes = StateChanges(graph, world, state)
        self.types = Types(FakeTensor, torch.SymInt, torch.SymFloat, torch.SymBool)
        """Those that only a trace has; classes of wrappers come to it (docs/subclasses.md)."""
        self.attributes = TensorAttributes(self)
        self.grads = Grads()
        self.inside = Inside()
        self.refusal: BaseException | None = None  # the last error of an operator
        self.frame: Frame | None = None  # the frame on whose behalf C code runs
        self.ready: Callable[..., None] = _not_set
        self.stack_trace: Callable[[Frame], str] = _not_set
        world.special.update({id(torch.Tensor): self.wrap, id(torch.nn.Parameter): self.wrap})
        world.special.update({id(kind): self._constant for kind in CONSTANT_TYPES})
        world.foreign = self._foreign
        self.arrays = arrays.Arrays(self, world)
        self.overrides = Overrides(self)
        self.subclasses = Subclasses(self)
        self.wrappers = Wrappers(self)
        graph.admit = self.wrappers.admit_made
        graph.code = self.wrappers.code
        self.foreign = Foreign(self)
        self.nodes = AutogradNodes(self)
        self.own = TensorState(self)
        self.shapes = Shapes(self, Wanted() if wanted is None else wanted)
        world.symbolic = {int: self.shapes.integer, float: self.shapes.floats.number}
        self.scalars = Scalars(self)
        self.indexing = Indexing(self.scalars)
        self.handled = Handled(graph)
        self.leaf_views = LeafViews()
        self.refusing_views = RefusingViews()
        self.applied = Applied()
        self.replaced = Replaced(self)
        self.budget = Budget({})

    # ------------------------------------------------------------------ from the world

    def holds(self, cls: type) -> bool:
        return cls is FakeTensor or self.wrappers.holds(cls)

    def is_of_subclass(self, value: Any) -> bool:
        return self.holds(type(value)) and self.subclasses.holds(value)

    def wrap(
        self, raw: torch.Tensor, source: Source, twin: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A real tensor becomes a graph input; if it is of a subclass, its plain twin does."""
        given = raw if twin is None else twin
        with DisableTorchFunction():
            try:
                dynamic = self.shapes.dynamic(raw, source)
                fake: torch.Tensor = self.graph.add_input(
                    str(source),
                    given,
                    dynamic=dynamic,
                    static=is_static(raw, source),
                    lasting=is_held(source),
                )
            except Unsupported as error:
                raise UnusualTensor(error.reason).about(source) from None
            match = self.shapes.wrapped(raw, fake, source, dynamic)
            match.wraps = self.wrappers.is_told(type(raw))
            self.world.guard(source, match if twin is not None else self.grads.wrapped(raw, match))
        self.sources[id(given)] = source
        self.inputs[id(fake)] = raw, source
        self.world.remember(raw, fake, source)
        return fake

    def wrap_like(
        self, raw: torch.Tensor, source: Source, fact: Guard, model: FakeInput | None
    ) -> torch.Tensor:
        """The same of a tensor for which a guard is known to hold, as it does for another input."""
        world = self.world
        fake = None
        if model is not None and id(raw) not in world.stand_ins and not objects.instance_dict(raw):
            with DisableTorchFunction():
                if self.shapes.dynamic(raw, source) is None:
                    fake = self.graph.add_input_like(str(source), raw, model)
        if fake is None:
            made: torch.Tensor = world.wrap(raw, source)
            return made
        match = self.grads.wrapped(raw, core.slots_copied(fact.check))
        world.guards.append(Guard(source, match, fact.code, fact.unit))
        self.sources[id(raw)] = source
        self.inputs[id(fake)] = raw, source
        world.remember(raw, fake, source)
        return fake

    def _constant(self, raw: Any, source: Source) -> Any:
        by_value = type(raw) in (torch.device, torch.Size)
        self.world.guard(source, Equal(raw) if by_value else Is(raw))
        return raw

    def _foreign(self, raw: Any, source: Source) -> Any:
        cls = type(raw)
        if is_torch_value(cls):
            return torch_values.wrap(self.world, raw, source)
        if objects.is_subtype(cls, TensorBase):
            if self.wrappers.concerns(cls):
                return self.wrappers.wrap(raw, source)
            return self.subclasses.wrap(raw, source)
        higher = objects.is_subtype(cls, HigherOrderOperator)
        if cls is OpOverload or cls is OpOverloadPacket or higher:
            self.world.guard(source, Is(raw))
            return self.world.know(raw)
        if raw is VariableFunctions or _is_c_enum(cls):
            self.world.guard(source, Is(raw))
            return self.world.know(raw)
        if is_result_type(cls):
            self.world.guard(source, TypeIs(cls))
            given = enumerate(tuple.__iter__(raw))
            items = [self.world.wrap(item, Index(source, i)) for i, item in given]
            return self.world.remember(raw, cls(items), source)
        return MISSING

    # ------------------------------------------------------------------ recording

    def record(self, frame: Frame | None, target: Any, args: Any, kwargs: Any = None) -> Any:
        """One node, or an answer."""
        operation = operation_of(target)
        self.replaced.check(target)
        self.budget.records(frame)
        if self.overrides.active and self.overrides.concerns(*args, kwargs or {}):
            raise TensorSubclass(f"{operation.shown} of a tensor of a subclass")
        if target is operator.getitem and self.own.settings.modes:
            gathered = self.indexing.gathered(frame, *args)
            if gathered is not MISSING:
                return gathered
        if kwargs and type(kwargs.get("generator")) is torch.Generator:
            return self.own.draws.operator(frame, target, args, kwargs)
        looked_at = operation.name in _LOOKED_AT
        if looked_at and is_factory(target):
            if self.own.draws.seeded.handles(target):
                return self.own.draws.seeded.draw(frame, target, args, kwargs or {})
            if self.own.draws.forked.handles(target, args, kwargs or {}):
                return self.own.draws.forked.draw(frame, target, args, kwargs or {})
        if not (self._are_plain(args) and (not kwargs or self._are_plain(kwargs.values()))):
            self.ready((args, kwargs), Depth.DEEP)
            args, kwargs = self.arrays.numbers((args, kwargs), target)
        if kwargs and kwargs.get("requires_grad") is True:
            made = self.record(frame, target, args, {**kwargs, "requires_grad": False})
            return self.own.requires_grad_(frame, made)
        if looked_at and operation.name in WRITTEN_OUT:
            written = written_out(self, frame, target, args, kwargs)
            if written is not MISSING:
                return written
        narrows = looked_at and target in _NARROW
        if target is pad:
            args = (args[0], self.scalars.numbers(frame, args[1]), *args[2:])
        elif operation.name in _DROPOUT and self.graph.symbols:  # 0 and 1 are made in another way
            args = tuple(self.shapes.plain(frame, value) for value in args)
            named = (kwargs or {}).items()
            kwargs = {name: self.shapes.plain(frame, value) for name, value in named}
        elif narrows and _starts_at_tensor(args):
            args = (*args[:2], *self.scalars.numbers(frame, args[2:]))
        trace = None if frame is None or frame.finished else self.stack_trace(frame)
        self.scalars.at(frame)
        if narrows:
            self._take_sign(args, kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                name = placing(target) if looked_at else ""
                sizes = sizes_before(name, args, kwargs) if name or kwargs else None
                result = self.graph.call(target, args, kwargs, stack_trace=trace)
                if name or sizes is not None:
                    with DisableTorchFunction():
                        check_strided(self, name, args, kwargs, result)
                        if sizes is not None:
                            check_resized(self, name, args, kwargs, sizes)
                self.shapes.assumed.note(frame)
                if not operation.torchs or may_refuse(operation):
                    self.handled.note(frame, operation, args)
                if operation.attends:
                    self.own.settings.attended(next(iter(tensors_in((args, kwargs))), None))
                if torch.is_grad_enabled() is not self.leaf_views.mode:
                    self.leaf_views.note(frame, result)
                self.wrappers.note(frame, result)
                if type(result) is tuple or type(result) is list:
                    self.refusing_views.note(frame, result)
                return result
            except OperatorError as failure:
                self.shapes.assumed.note(frame)
                error = of_operands(failure.error, args)
                settle_handled(self, frame, error, (args, kwargs))
            except DataDependent as failure:
                # Once the sizes are settled, there are none left that depend on values.
                known = self.scalars.speculation.settled(frame, ([*args], kwargs))
                if known is None:
                    raise ValueNeeded(failure.reason) from None
                return self.record(frame, target, tuple(known[0]), known[1])
            except Apart as failure:
                raise failure.cause(failure.reason) from None
            except Unsupported as failure:
                known = self.scalars.speculation.settled(frame, ([*args], kwargs))
                if known is not None:
                    return self.record(frame, target, tuple(known[0]), known[1])
                raise failure.cause(failure.reason, whole=failure.whole) from None
            except UntrackedTensorError as untracked:
                raise left(untracked, "and is used") from None
        return self.refuse(error)

    def _are_plain(self, args: Iterable[Any]) -> bool:
        """Whether there is nothing in arguments that C code would look into, or that is numpy's."""
        opaque = self.world.opaque
        for value in args:
            cls = type(value)
            if cls is not FakeTensor and (not _NUMBERS.holds(cls) or id(value) in opaque):
                return False
        return True

    def _take_sign(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`narrow` from an unknown place: it is counted from the end only if it is in this call.

        We know how long the result is either way. A backend finds out only if it knows the sign.
        """
        start = args[2] if len(args) > 2 else kwargs.get("start")
        kernels = self.graph.kernels
        if type(start) is torch.SymInt and not start.node.has_hint() and kernels.assumes:
            condition = sympy.Ge(start.node.expr, 0)
            if kernels.observed(condition) is False:
                condition = sympy.Not(condition)
            take(self.graph.shape_env, condition)

    def refuse(self, error: BaseException) -> NoReturn:
        """As if the operator itself had raised it: without our own exceptions behind it."""
        error.__context__ = error.__cause__ = error.__traceback__ = None
        error.__suppress_context__ = False
        self.refusal = error
        core.raise_user(error)

    def torch_function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch call made by C code."""
        name = getattr(func, "__name__", "")
        owner = getattr(func, "__self__", None)
        if name == "__get__" and type(owner) is types.GetSetDescriptorType:
            if self.frame is None:  # the tracer itself
                return self.attributes.attribute(None, args[0], owner.__name__)
            with self.overrides.in_c_code():
                return self.attributes.own_field(self.frame, args[0], owner.__name__)
        if self.frame is None and self.overrides.concerns(*args, *kwargs.values()):
            rule = leaves.classify(func)
            if rule is None or rule.kind is not leaves.Kind.CONSTANT:
                raise TensorSubclass(f"{leaves.shown(func)} of a tensor of a subclass, by C code")
            with self.overrides.plainly():  # the tracer itself
                return self.call(None, func, list(args), kwargs)
        with self.overrides.in_c_code():
            if name in _CONVERSIONS:
                return self._conversion(func, name, args[0])
            return self.call(self.frame, func, list(args), kwargs)

    def _conversion(self, func: Any, name: str, value: torch.Tensor) -> Any:
        """C code needs a number."""
        if self.overrides.concerns(value) and not self.overrides.by_default(value):
            asked = self.overrides.call(self.frame, func, (value,), {})
            if not CONSTANTS.holds(type(asked)):
                raise ValueNeeded(f"C code needs the value of a tensor (Tensor.{name})")
            return asked
        with self.overrides.plainly():
            known = self.scalars.converted(self.frame, name, value)
        if known is None:
            raise ValueNeeded(f"C code needs the value of a tensor (Tensor.{name})")
        return known

    def call(self, frame: Frame | None, function: Any, args: list[Any], kwargs: Any) -> Any:
        """A call of a torch function, by its leaf rule."""
        rule = leaves.classify(function)
        if rule is None or rule.kind is leaves.Kind.EVALUATE:
            raise NoGraphOperation(f"{leaves.shown(function)} is called by C code on a tensor")
        return self.apply(frame, rule, function, args, kwargs)

    def apply(
        self, frame: Frame | None, rule: leaves.Rule, function: Any, args: list[Any], kwargs: Any
    ) -> Any:
        """What a leaf rule says."""
        asked = self.overrides.call(frame, function, args, kwargs or {})
        if asked is not MISSING:
            return asked
        converted = self.arrays.torch_call(frame, function, args, kwargs)
        if converted is not arrays.MISSING:
            return converted
        if self.arrays.symbolic and rule.kind is leaves.Kind.RECORD:
            args = [self.arrays.number(frame, value) for value in args]
            kwargs = {name: self.arrays.number(frame, v) for name, v in (kwargs or {}).items()}
        if rule.kind in (leaves.Kind.FORBIDDEN, leaves.Kind.RECORD):
            found = self.scalars.torch_call(frame, function, args, kwargs)
            if found is not MISSING:
                return found
        match rule.kind:
            case leaves.Kind.RECORD:
                target, first = leaves.target_of(function)
                return self.record(frame, target, (*first, *args), kwargs)
            case leaves.Kind.CONSTANT:
                return self.answer(frame, function, args, kwargs)
            case leaves.Kind.STATE:
                if frame is not None and not frame.finished:
                    self.stack_trace(frame)
                with DisableTorchFunction():
                    return self.state_changes.change(frame, rule.action, function, args, kwargs)
            case leaves.Kind.OWN:
                self.grads.asked()
                _, first = leaves.target_of(function)
                # What happens beside the graph takes numbers, not symbols; a seed may be fetched.
                if rule.action != "manual_seed":
                    args = [self.shapes.plain(frame, value) for value in args]
                named = (kwargs or {}).items()
                kwargs = {name: self.shapes.plain(frame, value) for name, value in named}
                with DisableTorchFunction():
                    return self.own.call(frame, rule.action, [*first, *args], kwargs)
            case leaves.Kind.LEFT_OUT:
                return None
            case leaves.Kind.FORBIDDEN:
                raise rule.cause(rule.reason)
        raise AssertionError(rule)

    def answer(self, frame: Frame | None, function: Any, args: list[Any], kwargs: Any) -> Any:
        self.ready((args, kwargs), Depth.DEEP)
        check_asked(frame, function)
        self.grads.answer(function, args)
        if self.overrides.active and id(function) in _HAS_TORCH_FUNCTION:
            return self.overrides.concerns(*args)
        if asks_for_hooks(frame, function) or asks_for_names(frame, function):
            return False
        if self.graph.symbols.unbacked:
            name = leaves.tensor_method(function) or getattr(function, "__name__", "")
            first = getattr(function, "__self__", None)  # of a bound method
            check_layout(self.scalars, frame, name, (first, *args))
        try:
            result = answered(
                self.scalars, frame, lambda: leaves.answer(function, tuple(args), kwargs)
            )
        except Exception as error:
            core.raise_user(error)
        self.own.settings.told(function, args, kwargs, result)
        if leaves.tensor_method(function) == "storage_offset":
            self._guard_offset(args[0] if args else function.__self__)
        return result

    def _guard_offset(self, tensor: torch.Tensor) -> None:
        """The program has asked where a tensor begins: inputs of its memory must begin there.

        A tensor in memory of its own may begin where any input does: as `slice_scatter` copies one.
        """
        self.inside.refuse("storage_offset of a tensor")
        with DisableTorchFunction():
            memory = storage_of(tensor)
            inputs = list(self.graph.fakes.inputs)
            alike = [given for given in inputs if storage_of(given.fake) == memory]
            for given in alike or inputs:
                source = self.sources.get(id(given.real))
                if source is not None and isinstance(given.real, torch.Tensor):
                    self.shapes.begins(given.real, source)

    # ------------------------------------------------------------------ symbolic numbers

    def is_symbol(self, *values: Any) -> bool:
        return any(SYMBOLS.holds(type(value)) for value in values)

    def has_symbols(self, value: Any, depth: Depth) -> bool:
        """Whether C code that reads a value this deep comes across a symbolic number."""
        if not self.graph.symbols:
            return False
        waiting, seen = [value], set()
        while waiting:
            item = waiting.pop()
            kind = type(item)
            if SYMBOLS.holds(kind):
                return True
            known = CONSTANTS.holds(kind) or self.holds(kind)
            if depth is Depth.DEEP and not known and id(item) not in seen:
                seen.add(id(item))
                if kind is torch.Size:
                    waiting += item
                else:
                    waiting += held(item, objects.layout_base(kind))
        return False

    # ------------------------------------------------------------------ operations

    def operator(self, frame: Frame, function: Any, *operands: Any) -> Any:
        if self.arrays.symbolic and any(map(self.arrays.is_symbolic, operands)):
            operands = tuple(self.arrays.number(frame, value) for value in operands)
        odd = None
        for value in operands:
            cls = type(value)
            if self.holds(cls) or SYMBOLS.holds(cls) or _OPERANDS.holds(cls):
                continue
            if not self._is_number(cls) and not self.arrays.is_number(cls):
                odd = cls
        if odd is not None and is_foreign(odd):
            return self.foreign.operator(frame, function, operands)
        asked = self.overrides.operation(frame, function, *operands)
        if asked is not MISSING:
            return asked
        if odd is not None:
            raise TensorSubclass(
                f"an operator between a tensor and an object of type {odd.__qualname__}"
            )
        if not self.holds(type(operands[0])):
            # What is changed "in place" is no tensor: a graph can't write `0 += x`.
            function = NOT_IN_PLACE.get(function, function)
        return self.record(frame, function, operands)

    def _is_number(self, cls: type) -> bool:
        """An int or float of a class of its own, whose operators are those of numbers."""
        if objects.layout_base(cls) not in (int, float):
            return False
        # torch asks for `__torch_function__`, too.
        for name in ("__torch_function__", "__getattr__", "__getattribute__"):
            found = self.world.class_attribute(cls, name)
            if found is not None and is_python_class(found.owner):
                return False
        names = (f"__{side}{name}__" for side in ("", "r") for name in ARITHMETIC)
        operators = (self.world.class_attribute(cls, name) for name in names)
        return not any(each is not None and is_python_class(each.owner) for each in operators)

    def truth(self, frame: Frame, value: torch.Tensor) -> bool:
        self.replaced.method("__bool__")
        if self.overrides.concerns(value):
            return self._plain_truth(frame, value)
        known = ranges.truth(self.graph.node(value))
        return self.scalars.tensor_truth(frame, value) if known is None else known

    def _plain_truth(self, frame: Frame, value: torch.Tensor) -> bool:
        """Of a tensor whose class is asked."""
        if not self.overrides.by_default(value):
            answer = self.overrides.operation(frame, bool, value)
            if type(answer) is not bool:
                raise TensorSubclass("the truth of a tensor is no bool, says __torch_function__")
            return answer
        with self.overrides.plainly():
            return self.truth(frame, value)

    def length(self, frame: Frame, value: torch.Tensor) -> Any:
        self.replaced.method("__len__")
        asked = self.overrides.operation(frame, torch.Tensor.__len__, value)
        if asked is not MISSING:
            return asked
        if value.dim() == 0:
            core.raise_user(TypeError("len() of a 0-d tensor"))
        return value.shape[0]

    def contains(self, frame: Frame, container: torch.Tensor, item: Any) -> bool:
        raise BranchOnValues("`in` depends on the values of a tensor")

    def getitem(self, frame: Frame, obj: torch.Tensor, key: Any) -> Any:
        self.replaced.method("__getitem__")
        self.ready(key, Depth.DEEP)
        asked = self.overrides.operation(frame, operator.getitem, obj, key)
        if asked is not MISSING:
            return asked

        def read(obj: Any, key: Any) -> Any:
            if self.own.settings.modes:
                gathered = self.indexing.gathered(frame, obj, key)
                if gathered is not MISSING:
                    return gathered
            part, rest = self.indexing.read(frame, obj, key)
            if type(rest) is tuple and not rest:
                return part  # all of it was selected
            return self.record(frame, operator.getitem, (part, rest))

        return self._settling(frame, (obj, key), read)

    def setitem(self, frame: Frame, obj: torch.Tensor, key: Any, value: Any) -> None:
        self.replaced.method("__setitem__")
        self.ready(key, Depth.DEEP)
        if self.overrides.operation(frame, operator.setitem, obj, key, value) is not MISSING:
            return

        def write(obj: Any, key: Any) -> None:
            part, rest = self.indexing.written(frame, obj, key)
            self.record(frame, operator.setitem, (part, rest, value))

        self._settling(frame, (obj, key), write)

    def _settling(self, frame: Frame, values: tuple[Any, ...], action: Callable[..., Any]) -> Any:
        """Does it; if that needs sizes or numbers in some values, once these are settled."""
        try:
            return action(*values)
        except Break:
            known = self.scalars.speculation.settled(frame, values)
            if known is None:
                raise
        return action(*known)

    def iter(self, frame: Frame, obj: torch.Tensor) -> Any:
        self.replaced.method("__iter__")
        if self.overrides.concerns(obj):
            return self.overrides.run_code(frame, torch.Tensor.__iter__, obj)
        if obj.dim() == 0:
            core.raise_user(TypeError("iteration over a 0-d tensor"))
        return iter(self.record(frame, ("method", "unbind"), (obj, 0)))


_HAS_TORCH_FUNCTION: Final = frozenset(
    map(
        id,
        (
            torch.overrides.has_torch_function,
            torch.overrides.has_torch_function_unary,
            torch.overrides.has_torch_function_variadic,
        ),
    )
)
# What C code asks a tensor for when it needs a number.
_CONVERSIONS: Final = frozenset({"__index__", "__int__", "__float__", "__complex__", "__bool__"})
_OPERANDS: Final = TypeSet(
    int, float, bool, complex, str, bytes, type(None), list, tuple, dict, torch.Size, torch.dtype
)


def _is_c_enum(cls: type) -> bool:
    """An enumeration of torch's C++ code: its members are constants."""
    if type(cls).__name__ != "pybind11_type" or not cls.__module__.startswith("torch"):
        return False
    return "__members__" in objects.type_dict(cls) or objects.lookup(cls, "__members__") is not None


def _starts_at_tensor(args: tuple[Any, ...]) -> bool:
    """Whether `narrow` would read where to start, and not raise."""
    start = args[2] if len(args) == 4 else None
    return type(start) is FakeTensor and is_index(start) and not start.dim()


def _not_set(*_: Any, **__: Any) -> Any:
    raise AssertionError("the tracer is not complete")
