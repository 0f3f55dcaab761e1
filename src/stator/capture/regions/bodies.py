"""Bodies: functions of the program that become graphs of their own, arguments of an operator.

In: a function, and what it is called with. Out: a `Body`: the function's operations in a subgraph,
what it returns, flattened, and where it is in the program. Tensors and numbers from outside are
lifted: they become inputs. What a graph can't hold is a `Break` that says so: a body that changes
anything, that raises, that draws random numbers, or whose results are no new tensors.
"""

import contextlib
import functools
import os
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.autograd.inside_transforms import alone
from stator.capture.calls.held_callables import callee
from stator.capture.regions.trees import Given
from stator.capture.regions.untouched import Untouched
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import RegionContents
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.drawing import random_nodes
from stator.graph.passes.purity import UNCOUNTED
from stator.graph.recording.output import OutputGraph
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# torch's own functions around those of the program, and what these are called in them.
_WRAPPED: Final = ("combine_fn", "f")
_WRAPPERS: Final = {
    "while_loop.<locals>.flat_cond_fn": "cond_fn",
    "while_loop.<locals>.flat_body_fn": "body_fn",
}
_TOLD: Final = ("dtype", "device", "layout")


@dataclass(frozen=True)
class Body:
    """A function that was evaluated in a subgraph of its own, which is still to be finished."""

    subgraph: Subgraph
    leaves: list[Any]
    """What it returns, flattened: tensors, numbers, constants."""
    spec: Any
    title: str
    """What a message calls it: `the true branch of torch.cond (model.py:12)`."""


def evaluate_body(
    calls: "Calls",
    frame: Frame,
    title: str,
    function: Any,
    args: Sequence[Any],
    own: Sequence[torch.Tensor | torch.SymInt] = (),
    *,
    fresh: bool = True,
) -> Body:
    """Evaluates a function as a body; `own` is what exists only in it, its first inputs.

    With `fresh`, its results must be new tensors: they are those of the operator.
    """
    title = f"{title} ({place_of(function)})"
    inner = Subgraph(calls.tensors.graph)
    untouched = Untouched(calls, [function, *args])
    tensors = [value for value in own if isinstance(value, torch.Tensor)]
    before = list(map(version_unseen, tensors))
    written = _Written(calls.tensors.graph)
    with translated(title), inner, written:
        inner.take(own, "given")
        result = _returned(calls, frame, title, function, args)
        made = Given(calls, result, title, RegionContents)
        for leaf in made.tensors:
            inner.require(leaf)
        if fresh:
            _check_leaves(inner, title, made)
        _check_memory(inner, title, written.found)
        if random_nodes(inner.graph):
            raise RegionContents(f"{title} draws random numbers, perhaps more than once, or never")
        changed = untouched.broken()
        if changed is not None:
            raise RegionContents(f"{title} {changed}, which it would do once for all its runs")
        if list(map(version_unseen, tensors)) != before:
            raise RegionContents(f"{title} changes a tensor that it is given")
    return Body(inner, made.leaves, made.spec, title)


def _returned(calls: "Calls", frame: Frame, title: str, function: Any, args: Sequence[Any]) -> Any:
    try:
        return evaluated(frame, callee(calls, function), *args)
    except Exception as error:
        if not core.is_user_error(error):
            raise
        kind = type(error).__name__
        raise RegionContents(f"{title} raises {kind}, which a graph can't") from None


@contextlib.contextmanager
def translated(title: str) -> Iterator[None]:
    """What recording runs into, as reasons for a break; no mode sees what is recorded."""
    try:
        yield
    except RecordingError as error:
        raise RegionContents(f"{title}: {error}") from None
    except UntrackedTensorError:
        raise RegionContents(f"{title} uses a tensor from inside of another one") from None


class _Written:
    """Which memory is written to while it is entered, also where no version counts it."""

    def __init__(self, graph: OutputGraph) -> None:
        self._graph = graph
        self.found: set[int] = set()

    def __enter__(self) -> None:
        self._before, self._graph.overwritten = self._graph.overwritten, self.found

    def __exit__(self, *_: object) -> None:
        self._graph.overwritten = self._before | self.found


def _check_memory(inner: Subgraph, title: str, written: set[int]) -> None:
    """Nothing from outside is written to, whether a version counts it or not."""
    with DisableTorchFunction():
        outside = {storage_of(value) for value in inner.tensors_from_outside()}
    if not written.isdisjoint(outside) or any(map(_updates_statistics, inner.graph.nodes)):
        raise RegionContents(f"{title} changes a tensor from outside")


def _updates_statistics(node: fx.Node) -> bool:
    """Running statistics are changed in training, and no version counts it."""
    if getattr(node.target, "__name__", node.target) not in UNCOUNTED:
        return False
    named = (node.kwargs.get(name) for name in ("training", "use_input_stats"))
    return True in named or True in node.args


def _check_leaves(inner: Subgraph, title: str, made: Given) -> None:
    """Results must be new tensors: the operator's results are none of its inputs, or views."""
    seen: dict[Any, int] = {}
    for place, leaf in enumerate(made.leaves):
        if type(leaf) is not FakeTensor:
            continue
        with DisableTorchFunction():
            memory = storage_of(leaf)
        if memory in seen:
            raise RegionContents(
                f"{title} returns tensors that share memory (results {seen[memory]} and {place})",
                "return a copy: `y.clone()`",
            )
        seen[memory] = place
    for value in inner.tensors_from_outside():
        with DisableTorchFunction():
            place = seen.get(storage_of(value), -1)
        if place >= 0:
            raise RegionContents(
                f"{title} returns a tensor from outside, or a view of one (result {place})",
                "return a copy: `x.clone()`",
            )


def place_of(function: Any) -> str:
    """Where a function is in the program; torch wraps some of them."""
    kind = type(function)
    if kind is types.MethodType:
        return place_of(function.__func__)
    if kind is functools.partial:
        inside = [function.keywords[name] for name in _WRAPPED if name in function.keywords]
        return place_of(inside[0] if inside else function.func)
    if kind is types.FunctionType:
        code = function.__code__
        if code.co_qualname in _WRAPPERS:
            free = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
            return place_of(free[_WRAPPERS[code.co_qualname]].cell_contents)
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    if objects.is_subtype(kind, torch.nn.Module):
        forward = objects.lookup(kind, "forward")
        if forward is not None and type(forward.value) is types.FunctionType:
            return f"{kind.__qualname__}, {place_of(forward.value)}"
    return kind.__qualname__


def part_like(tensor: torch.Tensor) -> torch.Tensor:
    """What a body is given in the place of a tensor, which is another one in each run."""
    made = alone(tensor)
    return made.requires_grad_(tensor.requires_grad) if tensor.requires_grad else made


def differ(title: str, what: str) -> Break:
    """The reason if a body does not fit another one, or itself."""
    return RegionContents(f"{title} {what}")


def compare(first: str, second: str, a: torch.Tensor, b: torch.Tensor, *, sizes: bool) -> None:
    """Refuses a tensor in the place of another of its kind; with `sizes`, it must lie the same."""
    with DisableTorchFunction():
        for name in _TOLD:
            if getattr(a, name) != getattr(b, name):
                raise _unlike(first, second, f"of {name}", getattr(a, name), getattr(b, name))
        if a.dim() != b.dim() or (sizes and not _are_same(a.shape, b.shape)):
            raise _unlike(first, second, "of shape", tuple(a.shape), tuple(b.shape))
        if sizes and not _are_same(a.stride(), b.stride()):
            raise _unlike(first, second, "with strides", a.stride(), b.stride())


def _unlike(first: str, second: str, what: str, a: object, b: object) -> Break:
    return RegionContents(f"{first} is a tensor {what} {a}, {second} one {what} {b}")


def _are_same(a: Any, b: Any) -> bool:
    """Whether sizes are the same for all values of what they are computed from."""
    return all(_expression(x) == _expression(y) for x, y in zip(a, b, strict=True))


def _expression(size: Any) -> Any:
    return size.node.shape_env.replace(size.node.expr) if type(size) is torch.SymInt else size


__all__ = ["Body", "compare", "differ", "evaluate_body", "part_like", "place_of", "translated"]
