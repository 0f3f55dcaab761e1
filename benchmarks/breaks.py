"""What graph breaks cost in each call, and in loops that run long.

    python -m benchmarks.breaks [--quick] [--json] [NAME ...]

The backend's compiled graphs do nothing: each returns the outputs of its first call. So the time of
a call is the front end's alone. "bare" is those same callables, one after the other, with their
inputs at hand, less the frame in which they are called: whoever calls a graph has one. Each case
runs in its own process; medians of the CPU time count.
"""

import gc
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

import stator
from benchmarks.graphs import PresetBackends, around
from benchmarks.runner import by_engine
from stator.cli.timing import Call, interleaved

ENGINES: Final = ("torch", "stator")
BREAKS: Final = (0, 1, 3)
ITERATIONS: Final = 1000
# Issue 5: three breaks cost at most this many times the overhead of none.
LIMIT: Final = 4.0


class Counting:
    """A backend that counts graphs and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        forward: Callable[..., Any] = module.forward
        return forward


def compile_with(engine: str, fn: Any, backend: Any) -> Any:
    """The function, compiled by one of the engines."""
    if engine == "stator":
        return stator.compile(fn, backend=backend)
    return torch.compile(fn, backend=backend)


def breaker(engine: str) -> Callable[[], None]:
    """The engine's own way to say that a graph ends."""
    if engine == "stator":
        return stator.graph_break
    found: Callable[[], None] = importlib.import_module("torch._dynamo").graph_break
    return found


def straight(count: int, graph_break: Callable[[], None]) -> Callable[[Tensor], Tensor]:
    """Four operations with so many breaks between them."""
    text = ["def straight(x):"]
    for n in range(4):
        text.append(f"    x = x + {n}")
        text += ["    graph_break()"] if n < count else []
    text.append("    return x")
    namespace: dict[str, Any] = {"graph_break": graph_break}
    exec("\n".join(text), namespace)
    made: Callable[[Tensor], Tensor] = namespace["straight"]
    return made


def measure_calls(engine: str, rounds: int) -> dict[str, Any]:
    """Seconds per call over the bare graphs, for each number of breaks."""
    torch.set_num_threads(1)
    x = torch.randn(4)
    calls: dict[str, Call] = {}
    with torch.no_grad():
        for count in BREAKS:
            backend = PresetBackends()
            fn = straight(count, breaker(engine))
            compiled = compile_with(engine, fn, backend)
            if not torch.equal(compiled(x), fn(x)):
                return {"failed": f"{count} breaks: the result differs from eager"}
            for _ in range(3):
                compiled(x)
            if len(backend.made) != count + 1:
                return {"failed": f"{count} breaks: {len(backend.made)} graphs"}
            calls[f"{count}"] = compiled, (x,)
            calls[f"bare {count}"] = around((each.run, each.inputs) for each in backend.made), ()
        calls["frame"] = around([]), ()
        times = interleaved(calls, rounds, 0.01)
    frame = times["frame"]
    return {"overhead": {str(n): times[f"{n}"] - times[f"bare {n}"] + frame for n in BREAKS}}


def looped(graph_break: Callable[[], None]) -> dict[str, Callable[..., Tensor]]:
    """Loops with a break inside."""

    def over_a_list(x: Tensor, items: list[Tensor]) -> Tensor:
        for item in items:
            x = x * 0.5 + item
            graph_break()
        return x

    def over_a_range(x: Tensor, items: list[Tensor]) -> Tensor:
        for _ in range(len(items)):
            x = x * 0.5 + 1
            graph_break()
        return x

    def over_a_counter(x: Tensor, items: list[Tensor]) -> Tensor:
        n = 0
        while n < len(items):
            x = x * 0.5 + n
            graph_break()
            n += 1
        return x

    return {"list": over_a_list, "range": over_a_range, "counter": over_a_counter}


LOOPS: Final = tuple(looped(lambda: None))


def measure_loop(engine: str, name: str) -> dict[str, Any]:
    """Graphs, seconds of the first and of a later call, and what is left behind by ten of them."""
    fn = looped(breaker(engine))[name]
    items = [torch.full((4,), 0.01) for _ in range(ITERATIONS)]
    x = torch.zeros(4)
    backend = Counting()
    compiled = compile_with(engine, fn, backend)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        start = time.perf_counter()
        result = compiled(x, items)
        first = time.perf_counter() - start
        if not torch.equal(result, fn(x, items)):
            return {"failed": "the compiled result differs from eager"}
        compiled(x, items)
        graphs = backend.graphs
        gc.collect()
        objects = len(gc.get_objects())
        start = time.perf_counter()
        for _ in range(10):
            compiled(x, items)
        later = (time.perf_counter() - start) / 10
        gc.collect()
        left = len(gc.get_objects()) - objects
    return {
        "graphs": graphs,
        "more graphs": backend.graphs - graphs,
        "first": first,
        "later": later,
        "left": left,
        "limit reached": any("limit" in str(each.message) for each in caught),
    }


CALLS: Final = "calls"


def measure(engine: str, name: str, rounds: int) -> dict[str, Any]:
    if name == CALLS:
        return measure_calls(engine, rounds)
    return measure_loop(engine, name)


def head(name: str) -> str:
    if name == CALLS:
        columns = "".join(f"{f'{n} breaks, µs':>16}" for n in BREAKS)
        return f"{'engine':<10}{columns}{'3 breaks : none':>18}"
    columns = f"{'graphs':>8}{'more':>6}{'first ms':>12}{'later ms':>12}{'objects':>10}"
    title = f"{ITERATIONS} iterations with a break inside"
    return f"{title}\n{'loop over':<10}{'engine':<8}{columns}"


def rows(name: str, results: dict[str, dict[str, Any]]) -> Iterator[str]:
    for engine, result in results.items():
        label = f"{engine:<10}" if name == CALLS else f"{name:<10}{engine:<8}"
        if "failed" in result:
            yield f"{label} {result['failed']}"
        else:
            yield label + (calls_row(engine, result) if name == CALLS else loop_row(result))


def calls_row(engine: str, result: dict[str, Any]) -> str:
    found = result["overhead"]
    ratio = found[str(BREAKS[-1])] / found["0"]
    cells = "".join(f"{found[str(n)] * 1e6:>16.2f}" for n in BREAKS)
    mark = "" if engine != "stator" or ratio <= LIMIT else f"  more than {LIMIT:.0f}"
    return f"{cells}{ratio:>18.2f}{mark}"


def loop_row(result: dict[str, Any]) -> str:
    return (
        f"{result['graphs']:>8}{result['more graphs']:>6}"
        f"{result['first'] * 1e3:>12.1f}{result['later'] * 1e3:>12.2f}{result['left']:>10}"
        f"{'  recompile limit reached' if result['limit reached'] else ''}"
    )


def main(argv: list[str] | None = None) -> int:
    names = (CALLS, *LOOPS)
    description = "The cost of graph breaks in compiled calls."
    return by_engine("benchmarks.breaks", description, names, ENGINES, measure, head, rows, argv)


if __name__ == "__main__":
    sys.exit(main())
