"""How often programs are compiled, and how many graphs they run, next to torch.compile.

    python -m benchmarks.compile_counts [--json] [NAME ...]

A program (`hooks`, `loops`, `passed_on`, `state`, `training`, `users`) calls compiled functions
some times while something changes: state, hooks, sizes, the objects that are passed. Per engine:
how many graphs the backend was given, how many ran, and whether each result is eager's. Where
stator compiles more than torch, or runs more graphs, the program's docstring says why, and is
shown. NAME may be the beginning of names. A program of which torch.compile captures nothing (a
loop with a break in it) is listed, but not compared. Each engine has a process of its own, for
torch.compile patches modules. Limits are out of the way, so that they hide nothing.
"""

import argparse
import importlib
import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from benchmarks.compile_counts import hooks, loops, passed_on, state, training, users
from benchmarks.compile_counts.program import PROGRAMS
from benchmarks.runner import in_process, print_json, versions
from benchmarks.zoo.engines import PEER
from benchmarks.zoo.measure import error_line

MODULES: Final = (hooks, loops, passed_on, state, training, users)
ENGINES: Final = (PEER, "stator")
LIMIT: Final = 64  # of variants
SECONDS: Final = 60  # for one program


class Eager:
    """The oracle."""

    def compile(self, target: Any, **_: Any) -> Any:
        return target

    def graph_break(self) -> None:
        pass

    def disable(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def reset(self) -> None:
        pass


class Counts:
    """What the backend was asked for."""

    compiles = runs = 0


def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """Runs graphs as they are, and counts. Graphs without operators don't count."""
    if any(node.op.startswith("call") for node in module.graph.nodes):
        Counts.compiles += 1

    def run(*args: Any) -> Any:
        Counts.runs += 1
        return module.forward(*args)

    return run


class Counting:
    """An engine with that backend."""

    def __init__(self, spec: str) -> None:
        if spec == PEER:
            dynamo: Any = importlib.import_module("torch._dynamo")
            dynamo.config.recompile_limit = dynamo.config.accumulated_recompile_limit = LIMIT
            self._compile: Callable[..., Any] = torch.compile
            self.graph_break, self.disable = dynamo.graph_break, dynamo.disable
            self._reset = dynamo.reset
        else:
            stator: Any = importlib.import_module("stator")
            stator.config.recompile_limit = LIMIT
            self._compile, self._reset = stator.compile, stator.reset
            self.graph_break, self.disable = stator.graph_break, stator.disable

    def compile(self, target: Any, **options: Any) -> Any:
        return self._compile(target, backend=backend, **options)

    def reset(self) -> None:
        self._reset()
        Counts.compiles = Counts.runs = 0


def results_of(name: str, engine: Any) -> list[Any]:
    """What a program yields, as it was then."""
    torch.manual_seed(0)
    engine.reset()
    found = []
    for result in PROGRAMS[name](engine):
        found.append(_copied(result))
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    if isinstance(value, dict):
        return [(key, _copied(each)) for key, each in value.items()]
    return value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, equal_nan=True)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or a is b)


def measure(spec: str, names: Iterable[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    engine = Counting(spec)
    found: dict[str, Any] = {}
    for name in names:
        try:
            signal.alarm(SECONDS)
            expected = results_of(name, Eager())
            results = results_of(name, engine)
            right = same(expected, results)
            counts = {"compiles": Counts.compiles, "runs": Counts.runs, "calls": len(results)}
            found[name] = counts if right else counts | {"failed": "results differ from eager"}
        except Exception as error:
            found[name] = {"failed": error_line(error)}
        finally:
            signal.alarm(0)
    return found


def _too_long(*_: object) -> None:
    raise TimeoutError(f"{SECONDS} s limit")


def row(name: str, results: dict[str, dict[str, Any]]) -> str:
    cells = ""
    for key in ("compiles", "runs"):
        counts: list[Any] = [results[spec].get(key) for spec in ENGINES]
        cells += "".join(f"{'-' if n is None else n:>8}" for n in counts)
        more = None not in counts and 0 < counts[0] < counts[1]
        cells += f"{' more' if more else '':<6}"
    said = reason(name) if cells.count("more") else ""
    failed = [f"{spec}: {results[spec]['failed']}" for spec in ENGINES if "failed" in results[spec]]
    line = f"{name:<38}{cells}{'; '.join(failed)}".rstrip()
    return f"{line}\n    {said}" if said else line


def reason(name: str) -> str:
    """Why stator compiles more than torch, or runs more graphs: a program says so itself."""
    return (PROGRAMS[name].__doc__ or "").partition("\n")[0]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names")
    options = parser.parse_args(argv)
    names = [n for n in PROGRAMS if not options.names or n.startswith(tuple(options.names))]
    if options.child:
        signal.signal(signal.SIGALRM, _too_long)
        print(json.dumps(measure(options.child, names)))
        return 0
    module = "benchmarks.compile_counts"
    measured = {spec: in_process(module, ["--child", spec, *names]) for spec in ENGINES}
    found = {n: {spec: measured[spec].get(n, measured[spec]) for spec in ENGINES} for n in names}
    if options.json:
        print_json(programs=found)
        return 0
    heads = "".join(f"{spec:>8}" for spec in ENGINES)
    print(
        f"{versions()}\n{'':<38}{'compiled':>16}{'':<6}{'run':>16}\n{'':<38}{heads}{'':<6}{heads}"
    )
    for name in names:
        print(row(name, found[name]))
    for key in ("compiles", "runs"):
        both = [[each[spec].get(key) for spec in ENGINES] for each in found.values()]
        pairs = [pair for pair in both if None not in pair and pair[0]]
        totals = [sum(pair[i] for pair in pairs) for i in range(2)]
        more = [name for name, (a, b) in zip(found, both, strict=True) if a and b and b > a]
        known = sum(bool(reason(name)) for name in more)
        print(
            f"{key}: {totals[1]} : {totals[0]}, more in {len(more)} of {len(pairs)} programs, "
            f"for {known} of which a reason is known"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
