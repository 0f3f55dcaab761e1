"""What many variants of one function cost: in each call, and when one more is compiled.

    python -m benchmarks.recompiles [--quick] [--json] [NAME ...]

`shapes` and `ints`: one function compiled for 1, 8 and 32 shapes of its tensor, or values of its
int, with sizes and ints fixed (dynamic=False). The calls go round through all of them, so the entry
that is wanted was last hit that many calls ago. `symbolic`: the same calls where one variant serves
them all, next to one that is fixed. `compile`: the CPU time of one more variant.

The backend's compiled graphs repeat the answer of their first call, so times are the front end's
alone, less that of the bare graphs. Each case runs in its own process.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.graphs import PresetBackends, around
from benchmarks.runner import by_engine, shown
from benchmarks.zoo.engines import PEER, Engine, TorchEngine, load
from stator.cli.timing import Call, interleaved

ENGINES: Final = (PEER, "stator:compile")
COUNTS: Final = (1, 8, 32)
LIMIT: Final = 64  # of variants
# Issue 6: a hit among 32 variants must not cost much more than one among 8.
GROWTH: Final = 1.5


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


def measure_calls(spec: str, name: str, rounds: int) -> dict[str, Any]:
    """Seconds per call over the bare graphs, by how many variants there are."""
    dynamic = name == "symbolic"
    timed: dict[str, Call] = {}
    for count in COUNTS:
        backend = PresetBackends()
        engine_of(spec).clear()
        fn = compiled(spec, backend, dynamic)
        calls = arguments(name, count)
        for args in calls:
            if not torch.equal(fn(*args), add(*args)) and not dynamic:
                return {"failed": "a result differs from eager"}
        wanted = 1 if dynamic else count
        if len(backend.made) != wanted:
            return {"failed": f"{len(backend.made)} graphs instead of {wanted}"}
        graphs = backend.made * (count if dynamic else 1)
        bare = [around([(each.run, each.inputs)]) for each in graphs]
        timed[f"{count}"] = around((fn, args) for args in calls), ()
        timed[f"bare {count}"] = around((_call, (each,)) for each in bare), ()
        timed[f"nothing {count}"] = around((_call, (_nothing,)) for _ in bare), ()
        times = interleaved(timed, rounds, 0.01)
    return {
        "overhead": {
            f"{n}": (times[f"{n}"] - times[f"bare {n}"] + times[f"nothing {n}"]) / n for n in COUNTS
        }
    }


def _call(each: Callable[[], None]) -> None:
    each()


def _nothing() -> None:
    """Called where a bare graph would be: what it takes to get there."""


def measure_compiles(spec: str, rounds: int) -> dict[str, Any]:
    """CPU seconds of one more variant, by the median."""
    backend = PresetBackends()
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


def measure(spec: str, name: str, rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    with torch.no_grad():
        if name == "compile":
            return measure_compiles(spec, rounds)
        return measure_calls(spec, name, rounds)


def head(name: str) -> str:
    columns = "".join(f"{n:>12}" for n in COUNTS)
    return f"µs per call, by variants\n{'case':<10}{'engine':<16}{columns}{'32 : 8':>12}"


def rows(name: str, results: dict[str, dict[str, Any]]) -> Iterator[str]:
    for spec, result in results.items():
        label = f"{name:<10}{spec:<16}"
        if "failed" in result:
            yield f"{label} {result['failed']}"
        elif name == "compile":
            yield f"{label}{result['compile'] * 1e3:>10.2f} ms"
        else:
            found = result["overhead"]
            cells = "".join(f"{shown(found[str(n)]):>12}" for n in COUNTS)
            growth = found["32"] / found["8"]
            mark = f"  grows by more than {GROWTH}" if growth > GROWTH else ""
            yield f"{label}{cells}{growth:>12.2f}{mark if spec != PEER else ''}"


def main(argv: list[str] | None = None) -> int:
    description = "The cost of many variants of one function."
    return by_engine(
        "benchmarks.recompiles", description, CASES, ENGINES, measure, head, rows, argv
    )


if __name__ == "__main__":
    sys.exit(main())
