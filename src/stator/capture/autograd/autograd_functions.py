"""`torch.autograd.Function` in a trace.

In: a call of `SomeFunction.apply`. Out: the forward's own operations, without gradients, and, where
something needs them, a node that gives its results theirs: it holds the backward as a subgraph
(`function_regions.py`). The user's code is evaluated like any other.
"""

import functools
import inspect
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx
from torch.autograd.function import BackwardCFunction

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd import functions_in_transforms
from stator.capture.autograd.function_regions import (
    ONCE,
    OWN,
    Context,
    FunctionRegion,
    Results,
    missing,
)
from stator.capture.autograd.later_code import Later
from stator.capture.modules.backward_hooks import REASON
from stator.diagnostics.catalogue import AutogradInside, RegionContents
from stator.graph import Unsupported, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.fakes.layouts import is_new
from stator.graph.fakes.memory import storage_of
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.autograd import BackwardHookFunction
from stator.torchlib.modes import autocast_disabled, set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


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
        raise AutogradInside(REASON)
    context = Context(None if inside else needs, f"{cls.__name__}Backward")
    if not inside and not (torch.is_grad_enabled() and any(needs)):
        result = _without_gradients(calls, frame, cls, context, given)
        same = [value for value in tensors if not any(value is each for each in context._dirty)]
        return _fresh(calls, frame, result, same, apart=True)
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


def _fresh(
    calls: "Calls", frame: Frame, result: Any, given: list[Any], *, apart: bool = False
) -> Any:
    """A tensor that is returned as it came is another tensor for the caller, a view."""

    def view(value: Any) -> Any:
        if any(value is each for each in given):
            return _handed_on(calls, frame, value, apart=apart)
        return value

    return tuple(map(view, result)) if type(result) is tuple else view(result)


def _handed_on(calls: "Calls", frame: Frame, value: Any, *, apart: bool) -> Any:
    """What torch returns in the place of a tensor that it was given; `apart` from its gradient."""
    with DisableTorchFunction():
        detached = apart and value.requires_grad
    if detached:
        return calls.tensors.record(frame, ("method", "detach"), (value,))
    return calls.tensors.record(frame, ("method", "view_as"), (value, value))


def _without_gradients(
    calls: "Calls", frame: Frame, cls: Any, context: Context, given: list[Any]
) -> Any:
    """A forward, which autograd does not see."""
    if not torch.is_grad_enabled():
        return _forward(calls, frame, cls, context, given)
    state = calls.tensors.state
    with DisableTorchFunction():
        state.set_grad_enabled(False)
    try:
        return _forward(calls, frame, cls, context, given)
    finally:
        with DisableTorchFunction():
            state.set_grad_enabled(True)


def _switch(mode: bool) -> None:
    with DisableTorchFunction():  # nobody records it
        set_grad_enabled(mode)


def _region(calls: "Calls", frame: Frame, cls: Any, context: Context, given: list[Any]) -> Any:
    graph = calls.tensors.graph
    inside = bool(calls.tensors.inside)
    known = len(graph.arguments.tensors())
    before = calls.changed()
    inner = Subgraph(graph)
    grad = torch.is_grad_enabled()
    if not inside:
        result = _without_gradients(calls, frame, cls, context, given)
    new = graph.arguments.tensors()[known:]
    _switch(False)  # as around any forward and backward; not part of the graph
    try:
        with inner, autocast_disabled():
            if inside:
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
            if inside:
                said = _described(context, outputs, (), ())
                outputs = _fresh(calls, frame, outputs, tensors)
            else:
                outputs, said = _linked(calls, frame, context, outputs, tensors, new)
            for value in (*tensors, *outputs):
                inner.require(value)
            attributes = {
                name: value for name, value in context.__dict__.items() if name not in OWN
            }
            shown = {name: value for name, value in attributes.items() if _is_shown(calls, value)}
            inner.arguments.of(tuple(shown.values()))  # what is no input yet becomes one
            shared = [*given, *left]
            places = [i for i, value in enumerate(results) if _is_tensor(calls, value)]
            slots = _Slots(len(results), places)
            saved, backward, once, orders = _backward(
                calls, frame, cls, context, given, outputs, slots, inner, shared
            )
            kept = _kept(calls, cls, context, saved, outputs if single else (*outputs, *result))
    finally:
        _switch(grad)
    found = None
    if inside:
        if once:
            raise RegionContents("a backward with once_differentiable inside of torch.func")
        found = functions_in_transforms.placed(saved, inner.inputs, outputs)
    forward = inner.finish((outputs, tuple(saved), tuple(shown.values())))
    kinds = {name: type(value) for name, value in shown.items()}
    region = FunctionRegion(forward, backward, said, cls.__name__, once, found, kinds, orders)
    trace = calls.tracer.stack_trace(frame)
    made = graph.call_region(
        "function", region, inner.inputs, stack_trace=trace, renewed=(*said.fresh, *said.changed)
    )
    calls.tensors.applied.note(frame, cls.__name__, made, kept, [*(attributes.keys() - shown)])
    if single:
        return made[0]
    filled = list(results)
    for place, value in zip(places, made, strict=True):
        filled[place] = value
    return tuple(filled)


def _linked(
    calls: "Calls",
    frame: Frame,
    context: Context,
    outputs: tuple[Any, ...],
    tensors: list[Any],
    made: Sequence[torch.Tensor],
) -> tuple[tuple[Any, ...], Results]:
    """The results, as they leave the region: the same tensors, or views of them."""
    new, dirty = set(map(id, made)), set(map(id, context._dirty))
    skipped = set(map(id, context._not_differentiable))
    given = {id(value) for value in tensors}
    if not dirty <= given & set(map(id, outputs)):
        raise RegionContents("mark_dirty of what is not given to the function and returned")
    if any(map(calls.tensors.graph.arguments.is_given, context._dirty)):
        raise RegionContents("mark_dirty of a tensor from before the call")
    fresh, changed = [], []
    found: list[Any] = []
    for place, value in enumerate(outputs):
        if any(value is each for each in outputs[:place]):
            raise RegionContents("the forward of a torch.autograd.Function returns a tensor twice")
        with DisableTorchFunction():
            is_view = value._is_view()
        if id(value) in dirty:
            changed.append(place)
        elif id(value) in given or is_view:
            apart = id(value) in given and id(value) in skipped
            value = _handed_on(calls, frame, value, apart=apart)
        elif id(value) in new and not calls.tensors.graph.arguments.is_given(value):
            fresh.append(place)
        else:
            raise RegionContents(
                "the forward of a torch.autograd.Function returns a tensor from before its call"
            )
        found.append(value)
    return tuple(found), _described(context, outputs, fresh, changed)


def _described(
    context: Context, outputs: tuple[Any, ...], fresh: Sequence[int], changed: Sequence[int]
) -> Results:
    skipped = context._not_differentiable
    apart = [i for i, each in enumerate(outputs) if any(each is other for other in skipped)]
    return Results(tuple(apart), tuple(fresh), tuple(changed))


def _is_shown(calls: "Calls", value: Any) -> bool:
    """Whether a graph can hand on an attribute of a ctx, which the results' `grad_fn` has, too."""
    cls = type(value)
    if cls is tuple or cls is torch.Size:
        return all(_is_shown(calls, each) for each in value)
    return cls in _SHOWN or _is_tensor(calls, value)


_SHOWN: Final = (
    *(type(None), bool, int, float, str, bytes, torch.dtype, torch.device),
    *(torch.SymInt, torch.SymFloat, torch.SymBool),
)


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
    calls: "Calls", cls: Any, context: Context, used: list[Any], outputs: tuple[Any, ...]
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
        if calls.tensors.graph.arguments.is_given(value) or shared:
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
) -> tuple[list[Any], fx.GraphModule, bool, list[tuple[int, ...]] | None]:
    """The graph of `backward`: (gradients of the outputs, what is saved) -> those of the inputs.

    It is traced without gradients of its own. Whether it can have them is the third answer; the
    last one is how the gradients that it is given must lie in memory, if it has asked.
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
        given_back = slots.filled(gradients)
        answer, asks = _answered(calls, frame, cls, backward, context, given_back, shared)
        asks = asks or any(_name(node) in _REARRANGING for node in behind.graph.nodes)
        orders = [_order(cls, each) for each in gradients] if asks else None
        if [version_unseen(value) for value in gradients] != versions:
            raise RegionContents(f"{cls.__name__}.backward changes a gradient that it is given")
        if calls.changed() != before:
            raise RegionContents(f"{cls.__name__}.backward changes objects from before the call")
        once = type(backward) is FunctionType and backward.__code__ is ONCE
        if calls.tensors.state.switched != switched and not once:
            raise RegionContents(f"{cls.__name__}.backward changes grad mode")
        answers = answer if type(answer) is tuple else (answer,)
        by_input = _by_input(calls, frame, cls, given, answers)
    saved = behind.inputs
    for value in saved:
        inner.arguments.of(value)
    module = behind.finish(tuple(by_input.get(id(value)) for value in inner.inputs))
    return saved, module, once, orders


_REARRANGING: Final = frozenset({"contiguous", "resolve_conj", "resolve_neg"})


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0]


def _order(cls: Any, gradient: torch.Tensor) -> tuple[int, ...]:
    """The dimensions of a tensor as they lie in memory, the outermost first."""
    with DisableTorchFunction():
        strides: Any = gradient.stride()
        if is_new(gradient):
            return tuple(range(len(strides)))
        if any(type(each) is not int for each in strides):
            raise RegionContents(f"{cls.__name__}.backward asks how a gradient of open sizes lies")
        return tuple(sorted(range(len(strides)), key=lambda place: -strides[place]))


def _answered(
    calls: "Calls",
    frame: Frame,
    cls: Any,
    backward: Any,
    context: Context,
    gradients: list[Any],
    shared: list[Any],
) -> tuple[Any, bool]:
    """What `backward` returns, if that is known before; whether it asks for layouts."""
    name = f"{cls.__name__}.backward"
    try:
        with Later(calls, name, context, shared) as later:
            return evaluated(frame, backward, context, *gradients), later.asks_layout
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
            pair = (found[id(value)], gradient)
            with DisableTorchFunction():
                dtype = value.dtype if value.requires_grad else gradient.dtype
                other = [each.dtype != dtype for each in pair]
            before, gradient = (
                calls.tensors.record(frame, ("method", "to"), (each, dtype)) if casts else each
                for each, casts in zip(pair, other, strict=True)
            )
            gradient = calls.tensors.record(frame, operator.add, (before, gradient))
        found[id(value)] = gradient
    return found


def _asked(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """An attribute that a real `ctx` has, and ours has not."""
    if any(args[0] in objects.type_dict(cls) for cls in objects.mro(BackwardCFunction)):
        raise RegionContents(f"{args[0]} of the ctx of a torch.autograd.Function is used")


AUTOGRAD: Final[dict[int, Any]] = {id(missing): _asked}
