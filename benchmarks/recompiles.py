"""What many variants of one function cost: in each call, and when one more is compiled.

    python -m benchmarks.recompiles [--quick] [--json] [NAME ...]

`shapes` and `ints`: one function compiled for 1, 8 and 32 shapes of its tensor, or values of its
int, with sizes and ints fixed (dynamic=False). The calls go round through all of them, so the entry
that is wanted was last hit that many calls ago. `symbolic`: the same calls where one variant serves
them all, next to one that is fixed. `compile`: the CPU time of one more variant.

The backend's compiled graphs repeat the answer of their first call, so times are the front end's
alone, less that of the bare graphs. Each case runs in its own process.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.calls import PresetBackend, in_process, interleaved, shown
from benchmarks.zoo.engines import PEER, Engine, TorchEngine, load
from benchmarks.zoo.measure import error_line

ENGINES: Final = (PEER, "stator:compile")
COUNTS: Final = (1, 8, 32)
LIMIT: Final = 64  # of variants
# Issue 6: a hit among 32 variants must not cost much more than one among 8.
GROWTH: Final = 1.5


class Backends:
    """A preset backend for each graph; they are called as one."""

    def __init__(self) -> None:
        self.made: list[PresetBackend] = []

    def __call__(self, module: Any, inputs: Any) -> Callable[..., Any]:
        backend = PresetBackend()
        self.made.append(backend)
        return backend(module, inputs)


def add(x: Tensor, n: int) -> Tensor:
    return x + n


def engine_of(spec: str) -> Engine:
    if spec == PEER:
        return TorchEngine(settings=[f"recompile_limit={LIMIT}"])
    return load(spec)


def compiled(spec: str, backend: Any, dynamic: bool) -> Callable[..., Any]:
    options: dict[str, Any] = {"backend": backend, "fullgraph": True, "dynamic": dynamic}
    if spec != PEER:
        options["recompile_limit"] = LIMIT
    made: Callable[..., Any] = engine_of(spec).compile(add, **options)
    return made


def arguments(name: str, count: int) -> list[tuple[Tensor, int]]:
    """Calls that need as many variants; neither 0 nor 1 occurs, which are always fixed."""
    if name == "ints":
        x = torch.randn(4)
        return [(x, n) for n in range(2, count + 2)]
    return [(torch.randn(n, 4), 2) for n in range(2, count + 2)]


def around(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Callable[[], None]:
    """All calls once, without a loop."""
    namespace: dict[str, Any] = {"fn": fn}
    lines = ["def around():"]
    for number, args in enumerate(calls):
        names = [f"a{number}_{index}" for index in range(len(args))]
        namespace |= dict(zip(names, args, strict=True))
        lines.append(f"    fn({', '.join(names)})")
    exec("\n".join(lines), namespace)
    made: Callable[[], None] = namespace["around"]
    return made


def measure_calls(spec: str, name: str, rounds: int) -> dict[str, Any]:
    """Seconds per call over the bare graphs, by how many variants there are."""
    dynamic = name == "symbolic"
    timed: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for count in COUNTS:
        backend = Backends()
        engine_of(spec).clear()
        fn = compiled(spec, backend, dynamic)
        calls = arguments(name, count)
        for args in calls:
            if not torch.equal(fn(*args), add(*args)) and not dynamic:
                return {"failed": "a result differs from eager"}
        wanted = 1 if dynamic else count
        if len(backend.made) != wanted:
            return {"failed": f"{len(backend.made)} graphs instead of {wanted}"}
        runs = [each.run for each in backend.made]
        if dynamic:
            runs = runs * count
        inputs = [each.inputs for each in backend.made] * (count if dynamic else 1)
        bare = [around(run, [each]) for run, each in zip(runs, inputs, strict=True)]
        timed[f"{count}"] = around(fn, calls), ()
        timed[f"bare {count}"] = around(lambda each: each(), [(each,) for each in bare]), ()
        timed[f"nothing {count}"] = around(lambda each: each(), [(_nothing,) for _ in bare]), ()
        times = interleaved(timed, rounds, 0.01)
    return {
        "overhead": {
            f"{n}": (times[f"{n}"] - times[f"bare {n}"] + times[f"nothing {n}"]) / n for n in COUNTS
        }
    }


def _nothing() -> None:
    """Called where a bare graph would be: what it takes to get there."""


def measure_compiles(spec: str, rounds: int) -> dict[str, Any]:
    """CPU seconds of one more variant, by the median."""
    backend = Backends()
    fn = compiled(spec, backend, dynamic=False)
    times = []
    for args in arguments("shapes", 2 * rounds):
        began = time.process_time()
        fn(*args)
        times.append(time.process_time() - began)
    if len(backend.made) != 2 * rounds:
        return {"failed": f"{len(backend.made)} graphs instead of {2 * rounds}"}
    return {"compile": statistics.median(times[2:])}


CASES: Final = ("shapes", "ints", "symbolic", "compile")


def child(spec: str, name: str, rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            if name == "compile":
                return measure_compiles(spec, rounds)
            return measure_calls(spec, name, rounds)
    except Exception as error:
        return {"failed": error_line(error)}


def print_case(name: str, results: dict[str, dict[str, Any]]) -> None:
    for spec, result in results.items():
        label = f"{name:<10}{spec:<16}"
        if "failed" in result:
            print(f"{label} {result['failed']}")
        elif name == "compile":
            print(f"{label}{result['compile'] * 1e3:>10.2f} ms")
        else:
            found = result["overhead"]
            cells = "".join(f"{shown(found[str(n)]):>12}" for n in COUNTS)
            growth = found["32"] / found["8"]
            mark = f"  grows by more than {GROWTH}" if growth > GROWTH else ""
            print(f"{label}{cells}{growth:>12.2f}{mark if spec != PEER else ''}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The cost of many variants of one function.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    options = parser.parse_args(argv)
    rounds = 5 if options.quick else 15
    if options.child:
        print(json.dumps(child(options.child, options.names[0], rounds)))
        return 0
    if unknown := set(options.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    passed = ["--quick"] if options.quick else []
    found: dict[str, dict[str, dict[str, Any]]] = {}
    if not options.json:
        versions = f"Python {platform.python_version()}, torch {torch.__version__}"
        print(f"{versions}, one thread, µs of CPU per call over the bare graphs, by variants")
        columns = "".join(f"{n:>12}" for n in COUNTS)
        print(f"{'case':<10}{'engine':<16}{columns}{'32 : 8':>12}")
    for name in options.names or CASES:
        found[name] = {
            spec: in_process("benchmarks.recompiles", ["--child", spec, *passed, name])
            for spec in ENGINES
        }
        if not options.json:
            print_case(name, found[name])
    if options.json:
        print(json.dumps({"python": platform.python_version(), "cases": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
