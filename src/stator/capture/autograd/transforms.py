"""`torch.func` in a trace: `grad`, `vjp`, `jvp`, and what is made of them.

In: a call of torch's implementation of a transform. Out: one node that applies the transform to the
function's graph; for `vjp` also the function that it returns, whose calls are nodes of their own.

Torch itself says what the transform is: it is called first with a function that only notes what it
gets. Then the program's function is evaluated, once, on tensors as it sees them. The node calls the
transform again, on the graph; so do we, on the fake tensors, to know the results.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
import torch.fx as fx

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.autograd.inside_transforms import alone
from stator.capture.calls.held_callables import callee
from stator.capture.calls.python_calls import stand_in
from stator.capture.regions.trees import Given, Held, Template
from stator.capture.texts.numbers_in_errors import settle_told
from stator.diagnostics.catalogue import Transform
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.recording.arguments import Handle
from stator.graph.recording.failures import quiet
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.replay import eager_error
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.fakes import (
    FakeTensorMode,
    detect_fake_mode,
    disable_fake_tensor_cache,
)
from stator.torchlib.modes import disable_current_modes, enable_python_dispatcher, set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import eager_transforms, functorch, pytree

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_transforms: Final[Any] = eager_transforms  # private functions
_functorch: Final[Any] = functorch


class TransformRegion(torch.nn.Module):
    """Applies a transform to a graph; its inputs are those of the transform, then the graph's."""

    transforms = True  # for backends: not every operator can be transformed

    def __init__(
        self, transform: Any, name: str, given: Template, body: fx.GraphModule, made: Template
    ) -> None:
        super().__init__()
        self.transform = transform
        self.given = given
        self.body = body
        self.made = made
        self.__name__ = name

    def forward(self, *inputs: Any) -> Any:
        count = self.given.count
        free = inputs[count:]

        def function(*args: Any, **kwargs: Any) -> Any:
            return self.made.fill(self.body.forward(*_tensors((args, kwargs)), *free))

        args, kwargs = self.given.fill(inputs[:count])
        return self.finished(self.transform(function, *args, **kwargs))

    def finished(self, result: Any) -> Any:
        return result


class VjpRegion(TransformRegion):
    """The function that `vjp` returns is a value of the graph."""

    def finished(self, result: Any) -> Any:
        output, function, *aux = result
        return output, Handle(function), *aux


class JvpRegion(TransformRegion):
    """Forward mode, of which fake tensors know less."""

    def forward(self, *inputs: Any) -> Any:
        with _lenient(detect_fake_mode(inputs)):
            return super().forward(*inputs)


@contextlib.contextmanager
def _lenient(mode: FakeTensorMode | None) -> Iterator[None]:
    """Fake tensors take numbers that torch wraps, and what they remember has no memory of views."""
    if mode is None:
        yield
        return
    before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with disable_fake_tensor_cache(mode):
            yield
    finally:
        mode.allow_non_fake_inputs = before


class PullbackRegion(torch.nn.Module):
    """A call of the function that `vjp` has returned."""

    def __init__(self, given: Template) -> None:
        super().__init__()
        self.given = given
        self.__name__ = _PULLBACK

    def forward(self, function: Handle, *inputs: Any) -> Any:
        args, kwargs = self.given.fill(inputs)
        return function.value(*args, **kwargs)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


# ---------------------------------------------------------------------------- calls


def _differentiated(
    calls: "Calls", frame: Frame, transform: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`grad_impl(function, …)` and the like."""
    return _region(calls, frame, TransformRegion, transform, args, kwargs)


def _jvp(
    calls: "Calls", frame: Frame, transform: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`_jvp_with_argnums(function, primals, tangents, …)`."""
    return _region(calls, frame, JvpRegion, transform, args, kwargs)


def _vjp(
    calls: "Calls", frame: Frame, transform: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`_vjp_with_argnums(function, *primals)`."""
    output, pullback, *aux = _region(calls, frame, VjpRegion, transform, args, kwargs)
    return stand_in(calls, frame, _with_function, [output, pullback, tuple(aux)], None)


def _with_function(output: Any, pullback: Any, aux: tuple[Any, ...]) -> Any:
    """What `vjp` returns. This is evaluated, so that the function is one of the program's."""

    def wrapper(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        return _pulled(pullback, cotangents, retain_graph, create_graph)

    return output, wrapper, *aux


def _pulled(pullback: Any, cotangents: Any, retain_graph: Any, create_graph: Any) -> Any:
    """Evaluating this asks `_pull`."""


def _pull(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    pullback, *rest = args
    given = Given(calls, (rest, kwargs), _PULLBACK)
    region = PullbackRegion(given.template)
    return _called(calls, frame, "pullback", region, [pullback, *given.tensors])


def _region(
    calls: "Calls",
    frame: Frame,
    kind: type[TransformRegion],
    transform: Any,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    name = _NAMES[id(transform)]
    if torch.is_inference_mode_enabled():
        raise Transform(f"{name} in inference mode")
    _prepare()
    calls.tensors.grads.asked()
    function, *rest = args
    given = Given(calls, (rest, kwargs), name)
    seen = _seen(calls, transform, name, given)
    inner = Subgraph(calls.tensors.graph)
    try:
        forward = kind is JvpRegion
        body, made = _body(calls, frame, name, inner, function, seen, forward)
    except RecordingError as error:
        raise Transform(f"{name}: {error}") from None
    except UntrackedTensorError:
        raise Transform(f"a tensor leaves a function sideways that is given to {name}") from None
    region = kind(transform, name, given.template, body, made)
    return _called(calls, frame, _word(name), region, [*given.tensors, *inner.inputs])


# ---------------------------------------------------------------------------- steps


class Seen(BaseException):
    """What the function gets from a transform, noted inside of it."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.grad = torch.is_grad_enabled()
        wrapped = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        self.requires_grad = [tensor.requires_grad for tensor in wrapped]
        self.tensors = [_functorch.get_unwrapped(tensor) for tensor in wrapped]

    def placed(self, parts: list[torch.Tensor]) -> tuple[Any, Any]:
        """The same, with these tensors, for the program's function."""
        rest = iter(parts)
        leaves = [
            next(rest)
            if isinstance(leaf, torch.Tensor)
            else leaf.value
            if type(leaf) is Held
            else leaf
            for leaf in self.leaves
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs


def _note(*args: Any, **kwargs: Any) -> Any:
    raise Seen(args, kwargs)


def _seen(calls: "Calls", transform: Any, name: str, given: Given) -> Seen:
    """Calls a transform for its arguments only. What it refuses is the program's error."""
    args, kwargs = given.value
    try:
        with (
            DisableTorchFunction(),
            quiet,
            _lenient(calls.tensors.graph.fake_mode),
            calls.tensors.graph.fake_mode,
            enable_python_dispatcher(),
        ):
            transform(_note, *args, **kwargs)
    except Seen as seen:
        return seen
    except Exception as failure:
        if is_interrupt(failure):
            raise
        error = failure

    def again(tensors: tuple[Any, ...], _: object) -> None:
        args, kwargs = given.template.fill(tensors)
        with contextlib.suppress(Seen):
            transform(_note, *args, **kwargs)

    return _refused(f"{name}: {error}", error, given.template, again, given.tensors)


def _body(
    calls: "Calls",
    frame: Frame,
    name: str,
    inner: Subgraph,
    function: Any,
    seen: Seen,
    forward_mode: bool,
) -> tuple[fx.GraphModule, Template]:
    """The graph of the program's function, and what it returns."""
    with DisableTorchFunction(), calls.tensors.graph.fake_mode:
        parts = list(map(_part, seen.tensors, seen.requires_grad))
    before = list(map(version_unseen, parts))
    state = calls.tensors.state
    grad, scopes = torch.is_grad_enabled(), state.open
    args, kwargs = seen.placed(parts)
    set_grad_enabled(seen.grad)  # the transform does it
    try:
        with inner, calls.tensors.inside.entered(inner, parts, forward_mode):
            inner.take(parts, "given")
            result = evaluated(frame, callee(calls, function), *args, **kwargs)
            made = Given(calls, result, name)
            if made.objects:
                kind = type(made.objects[0]).__qualname__
                raise Transform(f"{name} of a function that returns an object of type {kind}")
            if list(map(version_unseen, parts)) != before:
                raise Transform(f"a function that is given to {name} changes its argument")
            if torch.is_grad_enabled() != seen.grad or state.open != scopes:
                raise Transform(f"a function that is given to {name} leaves another grad mode")
            for tensor in made.tensors:
                inner.require(tensor)
    finally:
        set_grad_enabled(grad)
    return inner.finish(tuple(made.tensors)), made.template


def _part(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """What the function sees of a tensor: differentiable by itself, if the transform says so."""
    return alone(tensor).requires_grad_(requires_grad)


def _called(calls: "Calls", frame: Frame, word: str, region: Any, inputs: list[Any]) -> Any:
    """The node, and its results."""
    trace = calls.tracer.stack_trace(frame)
    try:
        # The engine stays in this thread, which has the modes.
        with DisableTorchFunction(), torch.autograd.set_multithreading_enabled(False):
            return calls.tensors.graph.call_region(word, region, inputs, stack_trace=trace)
    except UntrackedTensorError:
        raise Transform(f"{region.__name__} of a tensor from inside of a region") from None
    except RecordingError as failure:
        error = failure
    settle_told(calls.tensors, frame, error, inputs)
    return _refused(
        str(error), error.__cause__, region.given, lambda given, _: region(*given), inputs
    )


def _refused(
    reason: str, error: BaseException | None, given: Template, run: Any, inputs: list[Any]
) -> NoReturn:
    """Torch refuses: it is the program's error if eager says the same of other values."""
    if given.whole and not any(type(each) is Handle for each in inputs):
        with DisableTorchFunction():
            found = eager_error(run, tuple(inputs), {})
        if type(found) is type(error) and str(found) == str(error):
            assert found is not None
            found.__suppress_context__ = False
            core.raise_user(found)
    raise Transform(reason) from None


def _word(name: str) -> str:
    return name.rpartition(".")[2]


@functools.cache
def _prepare() -> None:
    """What torch imports when it differentiates has to be imported in the open."""
    with disable_current_modes(), DisableTorchFunction():
        torch.func.grad(torch.sin)(torch.zeros(()))


_PULLBACK: Final = "the function returned by torch.func.vjp"
_HANDLERS: Final = {
    "grad_impl": ("torch.func.grad", _differentiated),
    "grad_and_value_impl": ("torch.func.grad_and_value", _differentiated),
    "_vjp_with_argnums": ("torch.func.vjp", _vjp),
    "_jvp_with_argnums": ("torch.func.jvp", _jvp),
}
_NAMES: Final = {id(getattr(_transforms, impl)): name for impl, (name, _) in _HANDLERS.items()}
TRANSFORMS: Final[dict[int, Any]] = {
    **{id(getattr(_transforms, impl)): handler for impl, (_, handler) in _HANDLERS.items()},
    id(_pulled): _pull,
}
