"""Graphs that raise when they run: the program itself runs in their place.

Stage: run time. In: the exception, and what the graph changes. Out: if the graph can have changed
nothing but torch's modes, which are as before by now (`graph/recording/scopes.py`), `RunOriginal`:
dispatch calls the function as it is. So handlers, effects and context managers see what they see
without stator, and the exception, if there is still one, is the program's own. Random numbers that
the graph has drawn are drawn again: their generators are as they were, too.

A graph that changes its inputs may be half done when it raises: then the exception leaves, unless
their versions tell that none of them has changed yet. So does what a signal handler raises, and all
else while the program has hooks for tensors that autograd saves: they have been called, and may
have raised (a checkpoint stops its recomputation like that).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from stator._native._core import RunOriginal
from stator.capture import Trace
from stator.driver.announcements import Instead
from stator.driver.label import Label
from stator.driver.tally import Why
from stator.graph.recording.interrupts import is_interrupt
from stator.torchlib.autograd import top_saved_hooks

_LOG: Final = logging.getLogger("stator")
# They run operator by operator: whatever changes an input has counted in its version at once.
_COUNTING: Final = frozenset({"eager", "aot_eager"})


def _has_hooks() -> bool:
    return top_saved_hooks(True) is not None


class _Generators:
    """The states of torch's own generators: of the CPU and, once CUDA is in use, its devices."""

    __slots__ = ("_cpu", "_cuda")

    def __init__(self) -> None:
        self._cpu = torch.default_generator.get_state()
        in_use: Any = torch.cuda.is_initialized  # it has no annotations
        self._cuda = torch.cuda.get_rng_state_all() if in_use() else ()

    def restore(self) -> None:
        torch.default_generator.set_state(self._cpu)
        for device, state in enumerate(self._cuda):
            torch.cuda.set_rng_state(state, device)


class _Unchanged(threading.local):
    """The exception before which no input has changed, by id: it is on its way to `Rerun`."""

    error = 0


class Rerun:
    """What can be done about an exception of one graph."""

    def __init__(
        self,
        label: Label,
        instead: Instead,
        *,
        possible: bool,
        draws: bool,
        changed: tuple[int, ...] = (),
    ) -> None:
        self._label = label
        self._instead = instead
        self.possible = possible
        self.draws = draws
        self.changed = changed  # inputs that are to be as they were
        self._reported = False
        self._unchanged = _Unchanged()

    @classmethod
    def of(cls, label: Label, trace: Trace, instead: Instead, backend: object) -> "Rerun":
        """For the graph of a trace."""
        changes, recorded = trace.changes, trace.recorded
        assert changes is not None and recorded is not None
        undone = changes.others or trace.prologue.steps
        possible = not (changes.inputs or undone)
        counts = changes.counted and type(backend) is str and backend in _COUNTING
        # What autograd has against a change depends on where the tensor comes from.
        refuses = trace.refuses or any(
            node.meta["example_value"].requires_grad for node in changes.inputs
        )
        changed: tuple[int, ...] = ()
        if changes.inputs and not undone and counts and refuses:
            changed = tuple(changes.positions(recorded))
        return cls(label, instead, possible=possible, draws=changes.random, changed=changed)

    def applies(self, error: BaseException) -> bool:
        """Whether the program runs in the place of the graph that has raised this."""
        possible = self.possible or self._unchanged.error == id(error)
        return possible and not is_interrupt(error) and not _has_hooks()

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The graph, as a function that has drawn nothing if the program runs in its place."""
        if self.changed:
            graph = self._watched(graph)
        if not (self.possible or self.changed) or not self.draws:
            return graph

        def drawing(*args: Any) -> Sequence[Any]:
            before = _Generators()
            try:
                return graph(*args)
            except Exception as error:
                if self.applies(error):
                    before.restore()
                raise

        return drawing

    def _watched(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The graph, as a function that notes of an exception that no input has changed yet."""
        changed, unchanged = self.changed, self._unchanged

        def watched(*args: Any) -> Sequence[Any]:
            unchanged.error = 0
            if any(args[position].is_inference() for position in changed):
                return graph(*args)  # their changes are not counted
            before = [args[position]._version for position in changed]
            try:
                return graph(*args)
            except Exception as error:
                if [args[position]._version for position in changed] == before:
                    unchanged.error = id(error)
                raise

        return watched

    def __call__(self, error: BaseException) -> None:
        """Returns if the exception is to leave."""
        if self.applies(error):
            text = f"{type(error).__name__}: {error}"
            self._instead.ran_eagerly(Why.RAISED)
            raise RunOriginal(lambda: self._report(text))

    def _report(self, text: str) -> None:
        """The program has had no error, or has handled it."""
        if not self._reported:
            self._reported = True
            _LOG.warning(
                "the graph of %s has raised\n  %s\n  The call was made again without it, and "
                "returned. Unless the program handles this exception, its backend is at fault.",
                self._label,
                text,
            )
