"""Handles of collectives that have begun (`async_op=True`) in a trace.

In: a collective that the program waits for later. Out: `Pending`, which stands for the handle. The
node of the collective is where the program begins it, and what it makes is written where the
program waits: the graph holds the same order, so that both what the program does in between and
what the backend does with it overlap with the communication.

A handle never leaves the graph, and none is left open in it: where the program keeps one, or is
split before it waits, the graph ends before the collective.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.diagnostics.catalogue import Communication
from stator.distributed.digest import groups_of
from stator.torchlib import distributed

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


Results = list[tuple[torch.Tensor, torch.Tensor, int | None]]
"""Tensors of the program, what is to be written to each, and which part of it, if not all."""


_Work: Final[Any] = distributed.c10d.Work if distributed.AVAILABLE else object


class Pending(_Work):  # type: ignore[misc]
    """A collective under way; to the program, a handle as any other."""

    def __init__(self, results: Results, step: int) -> None:
        super().__init__()
        self._results = results
        self._step = step
        self._waited = False

    def wait(self) -> bool:
        """What is called in place of `Work.wait`."""
        raise AssertionError("a trace carries this out")


def _refusing(name: str) -> Any:
    def refusing(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a trace breaks off here")

    refusing.__name__ = name
    return refusing


def _others() -> tuple[str, ...]:
    """The other methods of handles, about which only a real one can tell."""
    if not distributed.AVAILABLE:
        return ()
    names = (name for name in dir(distributed.c10d.Work) if not name.startswith("_"))
    return tuple(name for name in names if name != "wait")


for _name in _others():
    setattr(Pending, _name, _refusing(_name))
Pending.__name__, Pending.__qualname__ = _Work.__name__, _Work.__qualname__
Pending.__module__ = _Work.__module__


def write(calls: "Calls", frame: Frame | None, results: Results) -> None:
    """The collective is done: its results are where the program has asked for them."""
    waited: dict[int, Any] = {}
    parts = Counter(id(result) for _, result, _ in results)
    for target, result, part in results:
        done = waited.get(id(result))
        if done is None:
            wait = distributed.OPERATORS.wait_tensor.default
            done = waited[id(result)] = calls.tensors.record(frame, wait, (result,))
        if part is not None:
            count = parts[id(result)]
            rows = calls.tensors.record(frame, ("method", "view"), (done, (count, *target.shape)))
            done = calls.tensors.record(frame, ("method", "select"), (rows, 0, part))
        if tuple(done.shape) != tuple(target.shape):
            done = calls.tensors.record(frame, ("method", "view"), (done, tuple(target.shape)))
        calls.tensors.record(frame, ("method", "copy_"), (target, done))


def _wait(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`work.wait()` of a collective that was begun in the call."""
    handle = args[0]
    if len(args) > 1 or kwargs:
        raise Communication("a collective is waited for with a time limit")
    if not handle._waited:
        handle._waited = True
        write(calls, frame, handle._results)
    return True


def _refuse(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Another method of a handle."""
    raise Communication(f"Work.{function.__name__} of a collective that was begun in the call")


def check_waited(calls: "Calls") -> None:
    """Where a graph ends, no collective may be under way that the program can't wait for.

    The groups that it names must be what they are now, however the program has named them.
    """
    for group in groups_of(calls.tensors.graph.graph):
        calls.groups.use(group)
    for handle in calls.pending:
        if not handle._waited:
            calls.tracer.before = handle._step
            raise Communication("a collective is begun, and the graph ends before it is waited for")


WORKS: Final[dict[int, Handler]] = {
    id(Pending.wait): _wait,
    **{id(vars(Pending)[name]): _refuse for name in _others()},
}
