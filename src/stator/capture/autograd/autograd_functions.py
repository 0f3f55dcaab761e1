"""`torch.autograd.Function` in a trace.

In: a call of `SomeFunction.apply`. Out: where nothing needs gradients, the body's own operations;
else one node that holds the body as a subgraph, and its backward as another one. The user's code is
evaluated like any other.
"""

import functools
import inspect
import operator
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx
from torch.autograd.function import BackwardCFunction, once_differentiable

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd import functions_in_transforms
from stator.capture.autograd.later_code import Later
from stator.diagnostics.catalogue import AutogradInside, RegionContents
from stator.graph import Unsupported, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.fakes.memory import storage_of
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.autograd import BackwardHookFunction
from stator.torchlib.modes import is_any_autocast_enabled, set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import are_transforms_active

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


class Context:
    """What a traced `forward` and `backward` get as `ctx`. Its methods are evaluated."""

    def __init__(self, needs_input_grad: tuple[bool, ...] | None, name: str) -> None:
        if needs_input_grad is not None:  # each level of a transform has an answer of its own
            self.needs_input_grad = needs_input_grad
        self._name = name
        self._saved: tuple[Any, ...] = ()
        self._not_differentiable: tuple[Any, ...] = ()
        self._materialize = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    def save_for_backward(self, *tensors: Any) -> None:
        self._saved = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self._materialize = value

    def __getattr__(self, name: str) -> Any:
        _missing(name)
        raise AttributeError(f"{self._name!r} object has no attribute {name!r}")


_OWN: Final = frozenset(Context((), "").__dict__)  # what is no attribute of the program's


def _missing(name: str) -> None:
    """Evaluating this asks `_asked`."""


def _asked(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """An attribute that a real `ctx` has, and ours has not."""
    if any(args[0] in objects.type_dict(cls) for cls in objects.mro(BackwardCFunction)):
        raise RegionContents(f"{args[0]} of the ctx of a torch.autograd.Function is used")


class _Apply(torch.autograd.Function):
    """Runs a region's graphs; the gradient of what the region was given comes from the second."""

    @staticmethod
    def forward(ctx: Any, region: "FunctionRegion", *inputs: Any) -> Any:
        outputs, saved = region.forward_graph(*inputs)
        ctx.region = region
        ctx.save_for_backward(*(value for value in saved if isinstance(value, torch.Tensor)))
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in saved]
        ctx.mark_non_differentiable(*(outputs[i] for i in region.not_differentiable))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        saved = (next(tensors) if number is None else number for number in ctx.numbers)
        return None, *ctx.region.backward_graph(*gradients, *saved)


class _ApplyOnce(_Apply):
    """The same, if gradients of the gradient are refused."""

    backward: Any = staticmethod(once_differentiable(_Apply.backward))


# What `once_differentiable` makes of a backward has this code.
_ONCE: Final = once_differentiable(_Apply.backward).__code__


class FunctionRegion(torch.nn.Module):
    """A traced `torch.autograd.Function`: outputs and what is saved; gradients of the inputs."""

    def __init__(
        self,
        forward: fx.GraphModule,
        backward: fx.GraphModule,
        not_differentiable: tuple[int, ...],
        name: str,
        once: bool,
        places: list[Any] | None,
    ) -> None:
        super().__init__()
        self.forward_graph = forward
        self.backward_graph = backward
        self.not_differentiable = not_differentiable
        self.name = name
        self.once = once
        self.places = places  # where what is saved is found, inside of a transform

    def forward(self, *inputs: Any) -> Any:
        if self.places is not None and are_transforms_active():
            return functions_in_transforms.applied(self, self.places, inputs)
        return _applied(self.name, self.once).apply(self, *inputs)


@functools.cache
def _applied(name: str, once: bool) -> Any:
    """A function of the program's name: messages and `grad_fn` tell it."""
    return type(name, (_ApplyOnce if once else _Apply,), {})


def evaluated(frame: Frame, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs a Python function in the trace, to its end."""
    return core.call(frame, functools.partial(function, *args, **kwargs), [], None)


def _is_tensor(calls: "Calls", value: Any) -> bool:
    return calls.tensors.holds(type(value))


def apply(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    """`cls.apply(*args)`."""
    cls, *given = args
    inside = bool(calls.tensors.inside)
    if inside:
        functions_in_transforms.check(calls, frame, cls)
    given = _placed(calls, frame, cls, given, kwargs)
    tensors = [value for value in given if _is_tensor(calls, value)]
    with DisableTorchFunction():
        needs = tuple(_is_tensor(calls, value) and value.requires_grad for value in given)
    calls.tensors.grads.asked()
    if cls is BackwardHookFunction:
        raise AutogradInside("a module has full backward hooks")
    context = Context(None if inside else needs, f"{cls.__name__}Backward")
    if not inside and not (torch.is_grad_enabled() and any(needs)):
        result = _forward(calls, frame, cls, context, given)
        return _fresh(calls, frame, result, tensors)
    if is_any_autocast_enabled():
        raise RegionContents("torch.autograd.Function under autocast, which its backward is not")
    try:
        return _region(calls, frame, cls, context, given)
    except Unsupported as error:
        raise RegionContents(f"torch.autograd.Function: {error.reason}") from None
    except UntrackedTensorError:
        raise RegionContents(
            "a tensor leaves the forward of a torch.autograd.Function sideways"
        ) from None


def _placed(
    calls: "Calls", frame: Frame, cls: Any, given: list[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The arguments of a forward by position, as torch's C code places them.

    A function with a `setup_context` gets the defaults of its forward as arguments.
    """
    forward = calls.tracer.getattr(frame, cls, "forward")
    setup = calls.tracer.getattr(frame, cls, "setup_context")
    if setup is not torch.autograd.Function.setup_context:
        args, kwargs = evaluated(frame, _bound, forward, *given, **kwargs)
        given = list(args)
        names: tuple[str, ...] = ()
    elif type(forward) is FunctionType:
        code = forward.__code__
        names = code.co_varnames[1 + len(given) : code.co_argcount]
    else:
        names = ()
    placed = [*given, *(kwargs[name] for name in names[: len(kwargs)] if name in kwargs)]
    if len(placed) != len(given) + len(kwargs):  # torch raises
        raise RegionContents(
            "keyword arguments do not fit the forward of a torch.autograd.Function"
        )
    return placed


def _bound(forward: Any, *args: Any, **kwargs: Any) -> Any:
    """What `torch.autograd.Function.apply` makes of arguments. Evaluated."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _forward(calls: "Calls", frame: Frame, cls: Any, context: Context, given: list[Any]) -> Any:
    forward = calls.tracer.getattr(frame, cls, "forward")
    setup = calls.tracer.getattr(frame, cls, "setup_context")
    if setup is torch.autograd.Function.setup_context:
        return evaluated(frame, forward, context, *given)
    result = evaluated(frame, forward, *given)
    evaluated(frame, setup, context, tuple(given), result)
    return result


def _fresh(calls: "Calls", frame: Frame, result: Any, given: list[Any]) -> Any:
    """A tensor that is returned as it came is another tensor for the caller, a view."""

    def view(value: Any) -> Any:
        if any(value is each for each in given):
            return calls.tensors.record(frame, ("method", "view_as"), (value, value))
        return value

    return tuple(map(view, result)) if type(result) is tuple else view(result)


def _region(calls: "Calls", frame: Frame, cls: Any, context: Context, given: list[Any]) -> Any:
    graph = calls.tensors.graph
    inner = Subgraph(graph)
    grad = torch.is_grad_enabled()
    set_grad_enabled(False)  # as around any forward and backward; not part of the graph
    try:
        with inner:
            before = calls.changed()
            result = _forward(calls, frame, cls, context, given)
            # What others have is theirs to change: arguments, and what has left the forward.
            left = [] if calls.changed() == before else list(context.__dict__.values())
            single = type(result) is not tuple
            results = (result,) if single else result
            outputs = tuple(value for value in results if _is_tensor(calls, value))
            if not outputs:
                raise RegionContents("the forward of a torch.autograd.Function returns no tensor")
            _check_context(calls, cls, context)
            tensors = [value for value in given if _is_tensor(calls, value)]
            outputs = _fresh(calls, frame, outputs, tensors)
            for value in tensors:
                inner.require(value)
            shared = [*given, *left]
            places = [i for i, value in enumerate(results) if _is_tensor(calls, value)]
            slots = _Slots(len(results), places)
            saved, backward, once = _backward(
                calls, frame, cls, context, given, outputs, slots, inner, shared
            )
            kept = _kept(cls, context, saved, inner, outputs if single else (*outputs, *result))
            skipped = context._not_differentiable
    finally:
        set_grad_enabled(grad)
    found = None
    if calls.tensors.inside:
        if once:
            raise RegionContents("a backward with once_differentiable inside of torch.func")
        found = functions_in_transforms.placed(saved, inner.inputs, outputs)
    region = FunctionRegion(
        inner.finish((outputs, tuple(saved))),
        backward,
        tuple(i for i, value in enumerate(outputs) if any(value is each for each in skipped)),
        cls.__name__,
        once,
        found,
    )
    trace = calls.tracer.stack_trace(frame)
    made = graph.call_region("function", region, inner.inputs, stack_trace=trace)
    attributes = [name for name in context.__dict__ if name not in _OWN]
    calls.tensors.applied.note(frame, cls.__name__, made, kept, attributes)
    if single:
        return made[0]
    filled = list(results)
    for place, value in zip(places, made, strict=True):
        filled[place] = value
    return tuple(filled)


@dataclass(frozen=True)
class _Slots:
    """Where the tensors are among the results of a forward."""

    count: int
    places: list[int]

    def filled(self, gradients: list[Any]) -> list[Any]:
        """What a backward is called with: None for what is no tensor."""
        found: list[Any] = [None] * self.count
        for place, gradient in zip(self.places, gradients, strict=True):
            found[place] = gradient
        return found


def _check_context(calls: "Calls", cls: Any, context: Context) -> None:
    """What the forward has told autograd: a region has it only as far as it concerns tensors."""
    if not context._materialize:
        raise RegionContents(f"{cls.__name__} wants to know which gradients there are")
    if not all(value is None or _is_tensor(calls, value) for value in context._saved):
        raise RegionContents(f"{cls.__name__} saves more than tensors")


def _kept(
    cls: Any, context: Context, used: list[Any], inner: Subgraph, outputs: tuple[Any, ...]
) -> list[torch.Tensor]:
    """Tensors that are attributes of the ctx, not saved: the backward sees what they are then.

    One from before the call can be changed by the next call, a result by the caller. One that was
    made in this call is followed until its end (`function_results.py`).
    """
    saved = {id(value) for value in context._saved}
    found = [value for value in used if isinstance(value, torch.Tensor) and id(value) not in saved]
    with DisableTorchFunction():
        theirs = {storage_of(value) for value in outputs if isinstance(value, torch.Tensor)}
        shared = [value for value in found if storage_of(value) in theirs]
    for value in found:
        if inner.arguments.is_given(value) or shared:
            raise RegionContents(
                f"{cls.__name__} keeps a tensor without save_for_backward, which others may change"
            )
    return found


def _backward(
    calls: "Calls",
    frame: Frame,
    cls: Any,
    context: Context,
    given: list[Any],
    outputs: tuple[Any, ...],
    slots: _Slots,
    inner: Subgraph,
    shared: list[Any],
) -> tuple[list[Any], fx.GraphModule, bool]:
    """The graph of `backward`: (gradients of the outputs, what is saved) -> those of the inputs.

    It is traced without gradients of its own. Whether it can have them is the last answer.
    """
    behind = Subgraph(calls.tensors.graph)
    with DisableTorchFunction(), calls.tensors.graph.fake_mode:
        gradients = [torch.empty_like(value) for value in outputs]
    with behind:
        behind.take(gradients, "gradient")
        backward = calls.tracer.getattr(frame, cls, "backward")
        before = calls.changed()
        switched = calls.tensors.state.switched
        versions = [version_unseen(value) for value in gradients]
        answer = _answered(calls, frame, cls, backward, context, slots.filled(gradients), shared)
        if [version_unseen(value) for value in gradients] != versions:
            raise RegionContents(f"{cls.__name__}.backward changes a gradient that it is given")
        if calls.changed() != before:
            raise RegionContents(f"{cls.__name__}.backward changes objects from before the call")
        once = type(backward) is FunctionType and backward.__code__ is _ONCE
        if calls.tensors.state.switched != switched and not once:
            raise RegionContents(f"{cls.__name__}.backward changes grad mode")
        answers = answer if type(answer) is tuple else (answer,)
        by_input = _by_input(calls, frame, cls, given, answers)
    saved = behind.inputs
    for value in saved:
        inner.arguments.of(value)
    module = behind.finish(tuple(by_input.get(id(value)) for value in inner.inputs))
    return saved, module, once


def _answered(
    calls: "Calls",
    frame: Frame,
    cls: Any,
    backward: Any,
    context: Context,
    gradients: list[Any],
    shared: list[Any],
) -> Any:
    """What `backward` returns, if that is known before it is called."""
    name = f"{cls.__name__}.backward"
    try:
        with Later(calls, name, context, shared):
            return evaluated(frame, backward, context, *gradients)
    except Exception as error:  # it is raised when the gradient is computed
        if not core.is_user_error(error):
            raise
        raise RegionContents(f"{name} raises {type(error).__name__}") from None


def _by_input(
    calls: "Calls", frame: Frame, cls: Any, given: list[Any], answers: tuple[Any, ...]
) -> dict[int, Any]:
    """The gradients by id of what they belong to; autograd raises where they don't fit."""
    if len(answers) < len(given) or any(each is not None for each in answers[len(given) :]):
        raise RegionContents(
            f"{cls.__name__}.backward returns {len(answers)} gradients for {len(given)} arguments"
        )
    found: dict[int, Any] = {}
    for value, gradient in zip(given, answers, strict=False):
        if gradient is None:
            continue
        if not _is_tensor(calls, value) or not _is_tensor(calls, gradient):
            kind = type(gradient).__qualname__
            raise RegionContents(f"{cls.__name__}.backward returns a gradient of type {kind}")
        with DisableTorchFunction():
            if value.requires_grad and tuple(gradient.shape) != tuple(value.shape):
                raise RegionContents(f"{cls.__name__}.backward returns a gradient of other shape")
        if id(value) in found:  # one tensor in two places has the sum of both
            before = found[id(value)]
            gradient = calls.tensors.record(frame, operator.add, (before, gradient))
        found[id(value)] = gradient
    return found


AUTOGRAD: Final[dict[int, Any]] = {id(_missing): _asked}
