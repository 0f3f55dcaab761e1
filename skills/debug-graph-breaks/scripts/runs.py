"""Runs of a program with its function compiled: what they show, and how the graphs were made.

In: a program (programs.py), a backend, a seed. Out: an `Outcome`, and what a `Watched` function has
noted of its calls.
"""

import contextlib
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import programs
import torch

import stator

SEEDS: Final = (1, 2)


@dataclass(frozen=True)
class Outcome:
    """What a run shows to whoever started it."""

    result: Any
    printed: str
    error: str


class Watched:
    """The compiled function, as main() gets it: counts calls, and keeps what it can't capture."""

    def __init__(self, step: Callable[..., Any], options: dict[str, Any], backend: Any) -> None:
        options = {**options, "fullgraph": True, "backend": backend, "isolate_recompiles": True}
        self._compiled = stator.compile(step, **options)
        self.calls = 0
        self._returned = 0
        self.failure: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        try:
            result = self._compiled(*args, **kwargs)
            self._returned += 1
            return result
        except (
            stator.CaptureError,
            stator.RecompileError,
            stator.BackendError,
            stator.InternalError,
        ) as error:
            self.failure = self.failure or error
            raise

    @property
    def compiles(self) -> int:
        return stator.testing.count(self._compiled).compiles

    @property
    def others(self) -> int:
        """Calls that have returned, and were served by more than one graph, or by none."""
        served = stator.testing.count(self._compiled)
        return max(0, self._returned - served.compiles - served.hits)

    @property
    def recompiles(self) -> tuple[Any, ...]:
        return stator.testing.recompiles(self._compiled)


class Recording:
    """A backend that runs graphs as they are, and keeps what they call."""

    def __init__(self, spoil: bool = False) -> None:
        self.graphs: list[list[str]] = []
        self._spoil = spoil

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
        self.graphs.append([getattr(each.target, "__name__", str(each.target)) for each in calls])
        if not self._spoil:
            return module.forward
        return _spoiling(module.forward)


def _spoiling(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that gives wrong numbers, also in the inputs that it changes."""

    def call(*args: Any) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        before = [(each, each._version) for each in tensors if not each.is_inference()]
        results = forward(*args)
        with torch.no_grad():
            for each, version in before:
                if each._version != version and each.dtype is not torch.bool:
                    each.mul_(2).add_(1)
        return tuple(map(_spoiled, results))

    return call


def _spoiled(value: Any) -> Any:
    """Another value of the same kind, with other gradients; not of flags, by which a graph tells
    that it is valid.
    """
    if isinstance(value, torch.Tensor) and value.dtype is not torch.bool:
        return value * 2 + 1
    return value


def eager_calls(target: str, main: str = "main") -> int:
    """How many calls no one graph has served, and returned: one that was made for one side of a
    branch gives way where the values are on the other side.
    """
    with quiet():
        program = programs.load(target, main)
        watched = Watched(program.step, program.options, Recording())
        outcome(program.main, watched, SEEDS[0])
    return watched.others


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a program does to the settings of the process is taken back."""
    dtype, threads, state = torch.get_default_dtype(), torch.get_num_threads(), random.getstate()
    grad = torch.is_grad_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(grad)
    random.setstate(state)


def outcome(main: Callable[[Any], Any], step: Callable[..., Any], seed: int) -> Outcome:
    """Runs a program, with all random generators in a known state."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    printed, result, error = io.StringIO(), None, ""
    with contextlib.redirect_stdout(printed):
        try:
            result = main(step)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return Outcome(result, printed.getvalue(), error)
