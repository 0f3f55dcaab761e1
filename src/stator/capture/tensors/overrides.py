"""`__torch_function__` in a trace: whom torch would ask about a call, asked by evaluating its code.

In: a call of torch that involves tensors of subclasses. Out: what `__torch_function__` answers;
MISSING if torch would ask nobody.

What torch hands over (the function, the types, the arguments) is not computed here. The call is
made for real on *probes*: empty tensors of classes whose `__torch_function__` tells what it gets.
"""

import contextlib
import functools
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.overrides import get_default_nowrap_functions

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.native_calls import call_c, received
from stator.capture.objects.c_fields import guard_mro
from stator.contracts import Depth
from stator.diagnostics.catalogue import TensorSubclass
from stator.graph.leaves import leaves
from stator.graph.recording.function_modes import without_modes
from stator.guards import Equal, State
from stator.objects.types import module_of, name_of, qualname_of
from stator.torchlib.tensors import (
    DisableTorchFunction,
    TensorBase,
    disabled_torch_function,
    is_torch_function_enabled,
)
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.tensors.tensors import Tensors

_PLAIN: Final = objects.TypeSet(torch.Tensor, torch.nn.Parameter)
is_plain: Final = _PLAIN.holds
_NOBODY: Final = disabled_torch_function  # the class does not want to be asked
DEFAULT: Final[Any] = torch.Tensor.__dict__["__torch_function__"].__func__
_bases_of: Final = type.__dict__["__bases__"].__get__


class _Told(BaseException):
    """Raised by a probe: what torch asked it. No `except TypeError` of torch's may catch it."""

    def __init__(self, *question: Any) -> None:
        super().__init__()
        self.question = question


@dataclass(frozen=True)
class Question:
    """What torch asks a class."""

    kind: type
    function: Any
    kinds: tuple[type, ...]
    """The classes of all that could be asked."""
    rest: tuple[Any, ...]
    """The arguments, and the keywords if torch hands any over."""


class Without:
    """Stands for `torch._C.DisableTorchFunctionSubclass()` and the like. The tracer enters and
    leaves it; the code is for programs that are split before they do.
    """

    def __init__(self, kind: Callable[[], Any]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        self._real: Any = self._kind()
        self._real.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._real.__exit__(*error)


class Overrides:
    """Asks `__torch_function__`."""

    calls: "Calls"

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self.active = False  # whether there is a tensor whose class is asked
        self.off = not is_torch_function_enabled()  # a guarded fact
        self._off_at_start = self.off
        self._before: list[bool] = []  # what it was, where the program has switched it off
        self._known: dict[int, bool] = {}  # by id of the class
        self._classes: dict[int, type] = {}  # of probes, by id of the class they stand for
        self._behind: dict[int, type] = {}  # and the other way round
        self._probes: dict[int, torch.Tensor] = {}  # by id of the fake
        self._alive: list[Any] = []
        self._in_c_code = False
        self._answer: Callable[..., Any]  # what probes do in the call that is made on them

    # ------------------------------------------------------------------ who is asked

    def enabled(self) -> bool:
        """Whether torch asks anybody, a fact that is guarded."""
        on = is_torch_function_enabled
        self._world.guard(State(on, (), "torch_function"), Equal(not self._off_at_start))
        return not self.off

    def asks(self, cls: type) -> bool:
        """Whether torch asks tensors of a class; a fact that is guarded."""
        if is_plain(cls):
            return False
        if not self._known:
            self.enabled()
        known = self._known.get(id(cls))
        if known is None:
            found = self._world.class_attribute(cls, "__torch_function__")
            known = found is not None and found.value is not _NOBODY
            guard_mro(self._world, cls)
            self._alive.append(cls)
            self._known[id(cls)] = known
        return known

    def concerns(self, *values: Any) -> bool:
        """Whether a tensor among these, or in containers of them, is asked now."""
        return self.active and not self.off and any(map(self._concerns, values))

    def _concerns(self, value: Any) -> bool:
        kind = type(value)
        if self._tensors.holds(kind):
            return self.asks(leaves.python_type(value))
        if kind is dict:
            return any(map(self._concerns, value.values()))
        if kind is slice:
            return any(map(self._concerns, (value.start, value.stop, value.step)))
        base = _sequence(kind)
        return base is not None and any(map(self._concerns, base.__iter__(value)))

    def by_default(self, value: Any) -> bool:
        """Whether the class of a tensor answers as torch.Tensor does."""
        found = self._world.class_attribute(leaves.python_type(value), "__torch_function__")
        assert found is not None
        return type(found.value) is classmethod and found.value.__func__ is DEFAULT

    # ------------------------------------------------------------------ asking

    def call(
        self, frame: Frame | None, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A call of torch: what the classes of its arguments make of it, or MISSING."""
        if not self.active or self.off:
            return MISSING
        if objects.is_subtype(type(function), type):
            return MISSING
        if type(function) is types.FunctionType and not _may_run(function):
            return MISSING
        bound = getattr(function, "__self__", None)
        first = [bound] if self._tensors.holds(type(bound)) else []
        self._tensors.ready((args, kwargs), Depth.DEEP)
        if not self.concerns(*first, *args, *kwargs.values()):
            return MISSING
        if first:
            found = objects.lookup(torch.Tensor, function.__name__)
            assert found is not None
            function = found.value
        question = self._question(function, (*first, *args), kwargs)
        if question is None:
            return MISSING
        if type(function) is types.FunctionType and question.function is not function:
            # It asks nobody itself: what it calls does.
            self.calls.evaluate_always(function)
            return self.run_code(frame, function, *first, *args, **kwargs)
        return self._asked(frame, question, function, (*first, *args), kwargs)

    def operation(self, frame: Frame | None, function: Any, *args: Any) -> Any:
        """The same for an operator or an access to an attribute."""
        if not self.concerns(*args):
            return MISSING
        question = self._question(function, args, {})
        return MISSING if question is None else self._asked(frame, question, function, args, {})

    def _asked(
        self,
        frame: Frame | None,
        question: Question,
        function: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """The answer; if a class has none, torch says who is next, or that nobody is."""
        asked: Question | None = question
        refused = 0
        while asked is not None:
            result = self._ask(frame, asked)
            if result is not NotImplemented:
                return result
            refused += 1
            asked = self._question(function, args, kwargs, refused)
        raise TensorSubclass("no class has an answer, and torch goes on")

    def _ask(self, frame: Frame | None, asked: Question) -> Any:
        found = self._world.class_attribute(asked.kind, "__torch_function__")
        assert found is not None
        if type(found.value) not in (classmethod, staticmethod):
            raise TensorSubclass(f"{asked.kind.__qualname__}.__torch_function__ is no class method")
        function = found.value.__func__
        given = (asked.function, asked.kinds, *asked.rest)
        if type(found.value) is classmethod:
            given = (asked.kind, *given)
        if function is DEFAULT:
            return self.default(frame, *given)
        self._world.know(function)
        return self.run_code(frame, function, *given)

    def run_code(self, frame: Frame | None, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluates Python code to its end, inside of one instruction."""
        bound = functools.partial(function, *args, **kwargs)
        if self._in_c_code:  # the frame is waiting for it
            self._in_c_code = False
            try:
                made = self.calls.tracer.run_within(function, *args, **kwargs)
                return received(self.calls, bound, made)
            finally:
                self._in_c_code = True
        assert frame is not None
        return received(self.calls, bound, call_c(self.calls, frame, bound, [], None))

    @contextlib.contextmanager
    def in_c_code(self) -> Iterator[None]:
        """Calls inside are those of C code that runs on behalf of a frame."""
        before, self._in_c_code = self._in_c_code, True
        try:
            yield
        finally:
            self._in_c_code = before

    # ------------------------------------------------------------------ probes

    def _question(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], refused: int = 0
    ) -> Question | None:
        """What torch asks on such a call, after so many have had no answer; None if nothing.

        If all have been asked, torch's error is the program's.
        """
        originals: dict[int, Any] = {}
        given = [self._probed(value, originals) for value in args]
        named = {name: self._probed(value, originals) for name, value in kwargs.items()}
        before = [None] * refused

        def answer(*question: Any) -> Any:
            if not before:
                raise _Told(*question)
            before.pop()
            return NotImplemented

        self._answer = answer
        try:
            with asking():
                if named:
                    function(*given, **named)
                else:  # an empty dict would be handed over
                    function(*given)
            return None
        except _Told as told:
            kind, asked, kinds, *rest = told.question
            return Question(
                self._behind[id(kind)],
                asked,
                tuple(self._behind.get(id(cls), cls) for cls in kinds),
                tuple(_restored(value, originals) for value in rest),
            )
        except Exception as error:
            if not refused:  # wrong arguments: the operation itself will tell
                return None
            error.__traceback__ = error.__context__ = error.__cause__ = None
            error.__suppress_context__ = False
            failure = error
        return core.raise_user(failure)

    def _probed(self, value: Any, originals: dict[int, Any]) -> Any:
        """The value, with an empty tensor of the same class for each tensor; probes for some."""
        kind = type(value)
        made: Any
        if self._tensors.holds(kind):
            made = self._probe(value)
        elif kind is dict:
            made = {key: self._probed(item, originals) for key, item in value.items()}
        elif kind is slice:
            parts = value.start, value.stop, value.step
            made = slice(*(self._probed(item, originals) for item in parts))
        else:
            base = _sequence(kind)
            if base is None:
                return value
            items = list(base.__iter__(value))
            made = base(self._probed(item, originals) for item in items)
            if all(old is new for old, new in zip(items, made, strict=True)):
                return value
        originals[id(made)] = value
        self._alive.append(made)
        return made

    def _probe(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._probes.get(id(tensor))
        if known is None:
            kind = leaves.python_type(tensor)
            known = _empty(self._probe_class(kind) if self.asks(kind) else kind)
            self._alive.append(tensor)
            self._probes[id(tensor)] = known
        return known

    def _told(self, cls: type, *question: Any) -> Any:
        """`__torch_function__` of a probe."""
        return self._answer(cls, *question)

    def _probe_class(self, cls: type) -> type:
        known = self._classes.get(id(cls))
        if known is None:
            bases = [base for base in _bases_of(cls) if objects.is_subtype(base, torch.Tensor)]
            probes = (torch.Tensor if is_plain(each) else self._probe_class(each) for each in bases)
            namespace = {
                "__torch_function__": classmethod(self._told),
                "__module__": module_of(cls),
                "__qualname__": qualname_of(cls),
            }
            meta: Any = type(torch.Tensor)
            known = meta(name_of(cls), tuple(dict.fromkeys(probes)), namespace)
            assert known is not None
            self._classes[id(cls)] = known
            self._behind[id(known)] = cls
        return known

    # ------------------------------------------------------------------ torch.Tensor's own

    def default(
        self,
        frame: Frame | None,
        cls: type,
        function: Any,
        kinds: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """`torch.Tensor.__torch_function__`."""
        self._tensors.ready((kinds, args, kwargs), Depth.DEEP)
        if not all(objects.is_subtype(cls, kind) for kind in kinds):
            return NotImplemented
        with self.plainly():
            result = self._run(frame, function, list(args), dict(kwargs or {}))
            if type(function) is types.MethodWrapperType and function in _fields():
                return result
            return self._converted(frame, result, cls)

    def _run(
        self, frame: Frame | None, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A function of torch on tensors whose classes are not asked."""
        tensors = self._tensors
        field = field_of(function)
        if field is not None:
            return tensors.attributes.field(frame, field, function.__name__, args)
        rule = self.calls.rule(function)
        if rule is not None and rule.kind is not leaves.Kind.EVALUATE:
            return tensors.apply(frame, rule, function, args, kwargs)
        return self.run_code(frame, function, *args, **kwargs)

    def _converted(self, frame: Frame | None, result: Any, cls: type) -> Any:
        """As `torch._tensor._convert`."""
        if cls is torch.Tensor:
            return result
        kind = type(result)
        if self._tensors.holds(kind):
            if objects.is_subtype(leaves.python_type(result), cls):
                return result
            return self._tensors.subclasses.as_subclass(frame, result, cls)
        if kind is not torch.Size and objects.is_subtype(kind, tuple):
            return kind([self._converted(frame, item, cls) for item in tuple.__iter__(result)])
        if kind is list:
            return [self._converted(frame, item, cls) for item in result]
        return result

    # ------------------------------------------------------------------ switching it off

    @contextlib.contextmanager
    def plainly(self) -> Iterator[None]:
        """Nobody is asked inside."""
        before, self.off = self.off, True
        try:
            yield
        finally:
            self.off = before

    def enter(self) -> None:
        self._before.append(self.off)
        self.off = True

    def leave(self) -> None:
        if not self._before:
            raise TensorSubclass("a context manager is left that was entered before the call")
        self.off = self._before.pop()

    @property
    def switched(self) -> bool:
        """Whether it is not as it was when the trace began."""
        return bool(self._before)


def _may_run(function: types.FunctionType) -> bool:
    """Whether a Python function may be called on probes: it asks first, or does nothing else."""
    rule = leaves.classify(function)
    forbidden = rule is not None and rule.kind is leaves.Kind.FORBIDDEN
    return not forbidden or leaves.tensor_method(function) is not None


def _sequence(kind: type) -> Any:
    """What torch takes a container of tensors for, None if it is no such container."""
    return next((base for base in (list, tuple) if objects.is_subtype(kind, base)), None)


def field_of(function: Any) -> str | None:
    """The attribute of tensors that `Tensor.shape.__get__` and the like are about."""
    if type(function) is not types.MethodWrapperType:
        return None
    owner = function.__self__
    if type(owner) is not types.GetSetDescriptorType or owner.__objclass__ is not _BASE:
        return None
    name: str = owner.__name__
    return name


_BASE: Final = TensorBase


@functools.cache
def _fields() -> frozenset[Any]:
    return frozenset(get_default_nowrap_functions())


def _restored(value: Any, originals: dict[int, Any]) -> Any:
    """What torch handed over, with the tensors for the probes."""
    if id(value) in originals:
        return originals[id(value)]
    if type(value) is tuple:
        return tuple(_restored(item, originals) for item in value)
    if type(value) is dict:
        return {name: _restored(item, originals) for name, item in value.items()}
    return value


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """torch asks classes, as it does outside of a trace: there is no mode in its way."""
    with without_modes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _empty(cls: type) -> torch.Tensor:
    with DisableTorchFunction():
        return TensorBase.as_subclass(torch.empty(0), cls)
