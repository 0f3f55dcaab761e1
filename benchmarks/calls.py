"""What a compiled call costs over the bare graph: argument binding, guards, dispatch.

    python -m benchmarks.calls [--quick] [--json] [--engines torch,stator:compile] [NAME ...]

The backend's compiled graph does nothing: it returns the outputs of its first call. So the time
of a call is the front end's alone, and "bare" is that same callable with its inputs at hand.
Each case runs in its own process; inside it, bare graph and engines take turns. Medians of the
CPU time count.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.engines import PEER, load
from benchmarks.zoo.measure import error_line

LIMIT_S: Final = 300.0
DEFAULT_ENGINES: Final = f"{PEER},stator:compile"
# What the bare graph of an engine is called beside the engine's own column.
BARE: Final = "bare"


class Block(nn.Module):
    """Four modules with this one."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.up = nn.Linear(width, width)
        self.act = nn.ReLU()
        self.down = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        return x + self.down(self.act(self.up(x)))


def residual(modules: int) -> Callable[[], tuple[Any, tuple[Tensor, ...]]]:
    """A model of that many modules: a Sequential and blocks of four."""

    def build() -> tuple[Any, tuple[Tensor, ...]]:
        return nn.Sequential(*(Block() for _ in range(modules // 4))), (torch.randn(2, 4),)

    return build


def one_tensor() -> tuple[Any, tuple[Tensor, ...]]:
    def fn(a: Tensor) -> Tensor:
        return a + 1

    return fn, (torch.randn(2, 4),)


def eight_tensors() -> tuple[Any, tuple[Tensor, ...]]:
    def fn(
        a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor, h: Tensor
    ) -> Tensor:
        return a + b + c + d + e + f + g + h

    return fn, tuple(torch.randn(2, 4) for _ in range(8))


CASES: Final[Mapping[str, Callable[[], tuple[Any, tuple[Tensor, ...]]]]] = {
    "tensors_1": one_tensor,
    "tensors_8": eight_tensors,
    "modules_5": residual(5),
    "modules_41": residual(41),
    "modules_401": residual(401),
    "modules_1201": residual(1201),
}


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


def prepared(spec: str, target: Any, args: tuple[Tensor, ...]) -> tuple[Any, PresetBackend]:
    """The compiled target after its first calls; raises if it is not one graph that is used."""
    backend = PresetBackend()
    fn = load(spec).compile(target, backend=backend, fullgraph=True)
    expected = target(*args)
    if not torch.equal(fn(*args), expected):
        raise AssertionError("the compiled result differs from eager")
    for _ in range(3):
        again = fn(*args)
    if backend.graphs != 1:
        raise AssertionError(f"{backend.graphs} graphs for one function")
    if not any(again is output for output in backend.outputs):
        raise AssertionError("the result does not come from the compiled graph")
    return fn, backend


def interleaved(
    calls: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]], rounds: int, sample_s: float
) -> dict[str, float]:
    """Median CPU seconds per call of each, measured in turns; the order changes every round."""
    timers = {
        name: timeit.Timer("fn(*args)", globals={"fn": fn, "args": args}, timer=time.process_time)
        for name, (fn, args) in calls.items()
    }
    repeats = {}
    for name, timer in timers.items():
        timer.timeit(3)
        repeats[name] = max(1, round(sample_s / max(timer.timeit(5) / 5, 1e-8)))
    samples: dict[str, list[float]] = {name: [] for name in timers}
    for turn in range(rounds):
        for name in list(timers) if turn % 2 == 0 else reversed(list(timers)):
            samples[name].append(timers[name].timeit(repeats[name]) / repeats[name])
    return {name: statistics.median(times) for name, times in samples.items()}


def measure(name: str, engines: list[str], rounds: int) -> dict[str, Any]:
    """Seconds per call of every engine and of its bare graph; errors in words."""
    torch.set_num_threads(1)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    errors: dict[str, str] = {}
    inputs = 0
    with torch.no_grad():
        for spec in engines:
            torch.manual_seed(0)
            target, args = CASES[name]()
            try:
                fn, backend = prepared(spec, target, args)
            except Exception as error:
                errors[spec] = error_line(error)
                continue
            calls[spec] = fn, args
            calls[f"{BARE} {spec}"] = backend.run, backend.inputs
            inputs = len(backend.inputs)
        times = interleaved(calls, rounds, 0.01)
    return {"name": name, "inputs": inputs, "times": times, "errors": errors}


def in_process(module: str, arguments: list[str]) -> dict[str, Any]:
    """The JSON that a fresh process of a benchmark prints last; "failed" says what went wrong."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"{LIMIT_S:.0f} s limit"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"failed": f"exit status {done.returncode}: {last}"}


def overhead(result: dict[str, Any], spec: str) -> float | None:
    times = result.get("times") or {}
    return times[spec] - times[f"{BARE} {spec}"] if spec in times else None


def ratio(result: dict[str, Any], engines: list[str]) -> float | None:
    """Of the last engine's overhead to the first's; below 1, the last is cheaper."""
    first, last = overhead(result, engines[0]), overhead(result, engines[-1])
    return last / first if first and last else None


def shown(value: float | None, scale: float = 1e6, digits: int = 2) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def head(engines: list[str]) -> str:
    names = "".join(f"{spec:>17}" for spec in engines)
    units = "".join(f"{'µs over bare':>17}" for _ in engines)
    return (
        f"{'case':<14} {'inputs':>7} {'bare graph':>11}{names} {'ratio':>8}\n"
        f"{'':<14} {'':>7} {'µs':>11}{units} {'':>8}"
    )


def row(result: dict[str, Any], engines: list[str]) -> str:
    times = result.get("times") or {}
    bare = next((seconds for name, seconds in times.items() if name.startswith(BARE)), None)
    columns = "".join(f"{shown(overhead(result, spec)):>17}" for spec in engines)
    return (
        f"{result['name']:<14} {result.get('inputs', 0):>7} {shown(bare):>11}{columns} "
        f"{shown(ratio(result, engines), 1, 4):>8}"
    )


def problems(results: list[dict[str, Any]]) -> list[str]:
    """What went wrong, each reason once, with the cases it stopped."""
    found: dict[str, list[str]] = {}
    for result in results:
        reasons = [f"{spec}: {text}" for spec, text in (result.get("errors") or {}).items()]
        for reason in [*reasons, *filter(None, [result.get("failed")])]:
            found.setdefault(reason, []).append(result["name"])
    return [f"{reason} ({', '.join(names)})" for reason, names in found.items()]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost of a compiled call over the bare graph.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--engines", default=DEFAULT_ENGINES, help="default: %(default)s")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    options = parser.parse_args(argv)
    engines = options.engines.split(",")
    rounds = 5 if options.quick else 15
    if options.child:
        print(json.dumps(measure(options.child, engines, rounds)))
        return 0
    if unknown := set(options.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if not options.json:
        versions = f"Python {platform.python_version()}, torch {torch.__version__}"
        print(f"{versions}, one thread, CPU time, median of {rounds} rounds\n{head(engines)}")
    results = []
    passed = ["--engines", options.engines, *(["--quick"] if options.quick else [])]
    for name in options.names or CASES:
        results.append({"name": name} | in_process("benchmarks.calls", ["--child", name, *passed]))
        if not options.json:
            print(row(results[-1], engines), flush=True)
    if options.json:
        print(json.dumps({"python": platform.python_version(), "cases": results}, indent=1))
    else:
        for line in problems(results):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
