"""One graph break, a number of calls deep: frames traced, graphs, and time to compile.

    python -m benchmarks.nested_breaks [--json] [DEPTH ...]

Each depth and engine runs in a process of its own, after another function has been compiled there,
so that loading is not counted. torch.compile is measured as it is and with its
`nested_graph_breaks`. A traced frame is one that an interpreter entered, inlined calls included.
"""

import argparse
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

import stator
from benchmarks.breaks import Counting
from benchmarks.runner import in_process
from benchmarks.zoo.measure import error_line
from stator import evaluator

ENGINES: Final = ("torch", "torch nested", "stator")
DEPTHS: Final = (1, 5, 10, 25, 100)
# Beyond this depth torch.compile takes minutes.
PEER_LIMIT: Final = 25


def program(depth: int, graph_break: Callable[[], None]) -> Callable[[Tensor], Tensor]:
    """A function that breaks this many calls inside, with operations around each call."""
    text = ["def f0(x):", "    y = x * 2", "    graph_break()", "    return y + 1"]
    for n in range(1, depth + 1):
        text += [f"def f{n}(x):", "    y = x + 1", f"    return f{n - 1}(y) * y"]
    namespace: dict[str, Any] = {"graph_break": graph_break}
    exec("\n".join(text), namespace)
    made: Callable[[Tensor], Tensor] = namespace[f"f{depth}"]
    return made


class Stator:
    """The engine of this repository."""

    def compile(self, fn: Any, backend: Any) -> Any:
        return stator.compile(fn, backend=backend)

    def graph_break(self) -> Callable[[], None]:
        return stator.graph_break

    def frames(self) -> int:
        return evaluator.statistics().frames


class Torch:
    """torch.compile; its interpreter is watched to count frames."""

    def __init__(self, nested: bool) -> None:
        self._dynamo: Any = importlib.import_module("torch._dynamo")
        self._dynamo.config.nested_graph_breaks = nested
        self._dynamo.config.recompile_limit = 1000
        convert = importlib.import_module("torch._dynamo.symbolic_convert")
        translator: Any = convert.InstructionTranslatorBase
        run, self._frames = translator.run, 0

        def counted(this: Any) -> Any:
            self._frames += 1
            return run(this)

        translator.run = counted

    def compile(self, fn: Any, backend: Any) -> Any:
        return torch.compile(fn, backend=backend)

    def graph_break(self) -> Callable[[], None]:
        found: Callable[[], None] = self._dynamo.graph_break
        return found

    def frames(self) -> int:
        return self._frames


def measure(name: str, depth: int) -> dict[str, Any]:
    """One engine at one depth."""
    engine = Stator() if name == "stator" else Torch(name.endswith("nested"))
    x = torch.full((4,), 0.01)
    for warm in (0, 1):
        engine.compile(program(warm, engine.graph_break()), Counting())(x)
    backend = Counting()
    fn = program(depth, engine.graph_break())
    compiled = engine.compile(fn, backend)
    frames, start = engine.frames(), time.perf_counter()
    try:
        result = compiled(x)
    except Exception as error:
        return {"failed": error_line(error)}
    seconds = time.perf_counter() - start
    frames = engine.frames() - frames
    if not torch.equal(result, fn(x)):
        return {"failed": "the compiled result differs from eager"}
    graphs = backend.graphs
    compiled(x)
    if backend.graphs != graphs:
        return {"failed": "a second call compiled more"}
    return {"frames": frames, "graphs": graphs, "seconds": seconds}


def shown(result: dict[str, Any]) -> str:
    if "failed" in result:
        return f"{'-':>8}{'-':>8}{'-':>10}"
    return f"{result['frames']:>8}{result['graphs']:>8}{result['seconds'] * 1e3:>10.1f}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The cost of a graph break deep inside.")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("depths", nargs="*", type=int, metavar="DEPTH", help=f"default: {DEPTHS}")
    options = parser.parse_args(argv)
    if options.child:
        print(json.dumps(measure(options.child, options.depths[0])))
        return 0
    if not options.json:
        print(f"Python {platform.python_version()}, torch {torch.__version__}, eager backends")
        print(f"{'depth':<6}" + "".join(f"{name:>26}" for name in ENGINES))
        print(f"{'':<6}" + f"{'frames':>8}{'graphs':>8}{'ms':>10}" * len(ENGINES))
    results, failures = [], []
    for depth in options.depths or DEPTHS:
        row = {}
        for name in ENGINES:
            if name != "stator" and depth > PEER_LIMIT:
                row[name] = {"failed": "not tried"}
                continue
            row[name] = in_process("benchmarks.nested_breaks", ["--child", name, str(depth)])
            if "failed" in row[name]:
                failures.append(f"{name}, depth {depth}: {row[name]['failed']}")
        results.append({"depth": depth} | row)
        if not options.json:
            print(f"{depth:<6}" + "".join(shown(row[name]) for name in ENGINES), flush=True)
    if options.json:
        print(json.dumps({"python": platform.python_version(), "depths": results}, indent=1))
    else:
        print("\n".join(failures), end="\n" if failures else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
