"""How the front end's share of a call is measured: for `stator bench` and for `benchmarks/`.

In: calls. Out: seconds per call of each. `PresetBackend` is the backend to compile with: its graphs
cost next to nothing, and are at hand to be timed as well. It needs no torch.
"""

import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class PresetBackend:
    """Compiles each graph to a callable that computes once and repeats its answer."""

    def __init__(self) -> None:
        self.graphs = 0
        self.run: Callable[..., Any] = lambda *args: None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: Any = None

    def __call__(self, graph: Any, example_inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        forward = graph.forward
        answer: Any = None

        def run(*args: Any) -> Any:
            nonlocal answer, forward
            if answer is None:
                answer = self.outputs = forward(*args)
                self.inputs = args
                forward = None  # the graph's own memory is the backend's business
            return answer

        self.run = run
        return run


def interleaved(calls: Mapping[str, Call], rounds: int, sample_s: float) -> dict[str, float]:
    """Median CPU seconds per call of each, measured in turns; the order changes every round."""
    timers = {
        name: timeit.Timer("fn(*args)", globals={"fn": fn, "args": args}, timer=time.process_time)
        for name, (fn, args) in calls.items()
    }
    repeats = {}
    for name, timer in timers.items():
        timer.timeit(3)
        repeats[name] = max(1, round(sample_s / max(timer.timeit(20) / 20, 1e-8)))
    samples: dict[str, list[float]] = {name: [] for name in timers}
    for turn in range(rounds):
        for name in list(timers) if turn % 2 == 0 else reversed(list(timers)):
            samples[name].append(timers[name].timeit(repeats[name]) / repeats[name])
    return {name: statistics.median(times) for name, times in samples.items()}
