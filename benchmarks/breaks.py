"""What graph breaks cost in each call, and in loops that run long.

    python -m benchmarks.breaks [--quick] [--json] [NAME ...]

The backend's compiled graphs do nothing: each returns the outputs of its first call. So the time of
a call is the front end's alone. "bare" is those same callables, one after the other, with their
inputs at hand, less the frame in which they are called: whoever calls a graph has one. Each case
runs in its own process; medians of the CPU time count.
"""

import argparse
import gc
import importlib
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

import stator
from benchmarks.calls import in_process, interleaved
from benchmarks.zoo.measure import error_line

ENGINES: Final = ("torch", "stator")
BREAKS: Final = (0, 1, 3)
ITERATIONS: Final = 1000
# Issue 5: three breaks cost at most this many times the overhead of none.
LIMIT: Final = 4.0


class Preset:
    """Compiles each graph to a callable that computes once and repeats its answer."""

    def __init__(self) -> None:
        self.runs: list[Callable[..., Any]] = []
        self.inputs: list[tuple[Any, ...]] = []

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        forward: Callable[..., Any] = module.forward
        number = len(self.runs)
        answer: Any = None

        def run(*args: Any) -> Any:
            nonlocal answer
            if answer is None:
                answer = forward(*args)
                self.inputs[number] = args
            return answer

        self.runs.append(run)
        self.inputs.append(())
        return run

    def bare(self) -> Callable[[], None]:
        """A function that calls all graphs in order and does nothing else."""
        namespace: dict[str, Any] = {}
        text = ["def bare():"]
        for number, (run, args) in enumerate(zip(self.runs, self.inputs, strict=True)):
            names = [f"a{number}_{index}" for index in range(len(args))]
            namespace |= {f"run{number}": run, **dict(zip(names, args, strict=True))}
            text.append(f"    run{number}({', '.join(names)})")
        text.append("    return None")
        exec("\n".join(text), namespace)
        made: Callable[[], None] = namespace["bare"]
        return made


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
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    with torch.no_grad():
        for count in BREAKS:
            backend = Preset()
            fn = straight(count, breaker(engine))
            compiled = compile_with(engine, fn, backend)
            if not torch.equal(compiled(x), fn(x)):
                return {"failed": f"{count} breaks: the result differs from eager"}
            for _ in range(3):
                compiled(x)
            if len(backend.runs) != count + 1:
                return {"failed": f"{count} breaks: {len(backend.runs)} graphs"}
            calls[f"{count}"] = compiled, (x,)
            calls[f"bare {count}"] = backend.bare(), ()
        calls["frame"] = Preset().bare(), ()
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


def child(engine: str, name: str, rounds: int) -> dict[str, Any]:
    try:
        if name == "calls":
            return measure_calls(engine, rounds)
        return measure_loop(engine, name)
    except Exception as error:
        return {"failed": error_line(error)}


def print_calls(results: dict[str, dict[str, Any]]) -> None:
    columns = "".join(f"{f'{n} breaks, µs':>16}" for n in BREAKS)
    print(f"{'engine':<10}{columns}{'3 breaks : none':>18}")
    for engine, result in results.items():
        if "failed" in result:
            print(f"{engine:<10} {result['failed']}")
            continue
        found = result["overhead"]
        ratio = found[str(BREAKS[-1])] / found["0"]
        cells = "".join(f"{found[str(n)] * 1e6:>16.2f}" for n in BREAKS)
        mark = "" if engine != "stator" or ratio <= LIMIT else f"  more than {LIMIT:.0f}"
        print(f"{engine:<10}{cells}{ratio:>18.2f}{mark}")


def print_loop(name: str, results: dict[str, dict[str, Any]]) -> None:
    for engine, result in results.items():
        if "failed" in result:
            print(f"{name:<10}{engine:<8} {result['failed']}")
            continue
        print(
            f"{name:<10}{engine:<8}{result['graphs']:>8}{result['more graphs']:>6}"
            f"{result['first'] * 1e3:>12.1f}{result['later'] * 1e3:>12.2f}{result['left']:>10}"
            f"{'  recompile limit reached' if result['limit reached'] else ''}"
        )


def main(argv: list[str] | None = None) -> int:
    names = ("calls", *LOOPS)
    parser = argparse.ArgumentParser(description="The cost of graph breaks in compiled calls.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    options = parser.parse_args(argv)
    rounds = 5 if options.quick else 15
    if options.child:
        print(json.dumps(child(options.child, options.names[0], rounds)))
        return 0
    if unknown := set(options.names) - set(names):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    passed = ["--quick"] if options.quick else []
    found: dict[str, dict[str, dict[str, Any]]] = {}
    if not options.json:
        versions = f"Python {platform.python_version()}, torch {torch.__version__}"
        print(f"{versions}, one thread, CPU time over the bare graphs, median of {rounds} rounds")
    for name in options.names or names:
        found[name] = {
            engine: in_process("benchmarks.breaks", ["--child", engine, *passed, name])
            for engine in ENGINES
        }
        if options.json:
            continue
        if name == "calls":
            print_calls(found[name])
        else:
            if name == (options.names or names[1:])[0]:
                print(f"\n{ITERATIONS} iterations with a break inside")
                head = f"{'graphs':>8}{'more':>6}{'first ms':>12}{'later ms':>12}{'objects':>10}"
                print(f"{'loop over':<10}{'engine':<8}{head}")
            print_loop(name, found[name])
    if options.json:
        print(json.dumps({"python": platform.python_version(), "cases": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
