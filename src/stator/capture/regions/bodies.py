"""Bodies: functions of the program that become graphs of their own, arguments of an operator.

In: a function, and what it is called with. Out: a `Body`: the function's operations in a subgraph,
what it returns, flattened, and where it is in the program. Tensors and numbers from outside are
lifted: they become inputs. What a graph can't hold is a `Break` that says so: a body that changes
anything, that raises, or whose results are no new tensors.
"""

import contextlib
import os
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.calls.arguments import is_functools_type
from stator.capture.calls.native_calls import callee
from stator.capture.regions.purity import Untouched
from stator.capture.regions.trees import Given
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import BodiesDiffer, RegionContents
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import version_unseen
from stator.graph.fakes.memory import storage_of
from stator.graph.recording.subgraph import Subgraph
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NUMBERS: Final = TypeSet(int, torch.SymInt)
SYMBOLS: Final = TypeSet(torch.SymInt, torch.SymFloat, torch.SymBool)


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
    own: Sequence[torch.Tensor] = (),
) -> Body:
    """Evaluates a function as a body; `own` are tensors that exist only in it, its first inputs."""
    title = f"{title} ({place_of(function)})"
    inner = Subgraph(calls.tensors.graph)
    untouched = Untouched(calls, [function, *args])
    before = list(map(version_unseen, own))
    with translated(title), inner:
        inner.take(own, "given")
        result = _returned(calls, frame, title, function, args)
        made = Given(calls, result, title, RegionContents)
        _check_leaves(inner, title, made)
        changed = untouched.broken()
        if changed is not None:
            raise RegionContents(f"{title} {changed}, which it would do once for all its runs")
        if list(map(version_unseen, own)) != before:
            raise RegionContents(f"{title} changes a tensor that it is given")
        for leaf in made.leaves:
            if type(leaf) is FakeTensor:
                inner.require(leaf)
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
    """What recording runs into, as reasons for a break."""
    try:
        yield
    except RecordingError as error:
        raise RegionContents(f"{title}: {error}") from None
    except UntrackedTensorError:
        raise RegionContents(f"{title} uses a tensor from inside of another one") from None


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
    """Where a function is in the program."""
    kind = type(function)
    if kind is types.MethodType:
        return place_of(function.__func__)
    if is_functools_type(kind, "partial"):
        return place_of(function.func)
    if kind is types.FunctionType:
        code = function.__code__
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    if objects.is_subtype(kind, torch.nn.Module):
        forward = objects.lookup(kind, "forward")
        if forward is not None and type(forward.value) is types.FunctionType:
            return f"{kind.__qualname__}, {place_of(forward.value)}"
    return kind.__qualname__


def differ(first: Body, second: Body, what: str, a: object, b: object) -> Break:
    """The reason if two bodies, of one operator, don't fit."""
    return BodiesDiffer(f"{first.title} returns {what} {a}, {second.title} {b}")


__all__ = ["SYMBOLS", "Body", "differ", "evaluate_body", "place_of", "translated"]
