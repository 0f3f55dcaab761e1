"""`stator bench`: what a compiled call costs on this machine, next to torch.compile.

In: nothing. Out: for a few programs the time of an eager call, what a compiled call costs beside
the graph itself, and how long the first call takes. The backend's graph repeats its first answer,
so that the front end alone is measured. All take turns; medians of CPU time count.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from stator import api
from stator.cli import screen
from stator.cli.timing import Call, PresetBackend, interleaved

_ROUNDS: Final = 15
_SAMPLE_SECONDS: Final = 0.01
ENGINES: Final[Mapping[str, Callable[..., Any]]] = {
    "stator": api.compile,
    "torch.compile": torch.compile,
}


class Result(NamedTuple):
    """One program; seconds by engine."""

    name: str
    eager: float
    overhead: dict[str, float]
    first: dict[str, float]


def main(given: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    with torch.no_grad():
        for engine in ENGINES.values():
            engine(lambda x: x + 1, backend="eager")(torch.ones(1))  # loads what has to be loaded
        results = [_measured(name, make) for name, make in _PROGRAMS.items()]
    if given.json:
        print(json.dumps([each._asdict() for each in results]))
    elif screen.is_terminal(sys.stdout):
        _draw(results)
    else:
        print("\n".join(_lines(results)))
    return 0


# ---------------------------------------------------------------------- programs


def _one_tensor() -> tuple[Any, tuple[Tensor, ...]]:
    return lambda a: a + 1, (torch.randn(2, 4),)


def _eight_tensors() -> tuple[Any, tuple[Tensor, ...]]:
    def add(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
        return a + b + c + d + e + f + g + h

    return add, tuple(torch.randn(2, 4) for _ in range(8))


def _layers(count: int) -> tuple[Any, tuple[Tensor, ...]]:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))), (torch.randn(2, 4),)


_PROGRAMS: Final[Mapping[str, Callable[[], tuple[Any, tuple[Tensor, ...]]]]] = {
    "a function of one tensor": _one_tensor,
    "a function of eight tensors": _eight_tensors,
    "a model of 10 layers": lambda: _layers(10),
    "a model of 100 layers": lambda: _layers(100),
}


# ---------------------------------------------------------------------- measuring


def _measured(name: str, make: Callable[[], tuple[Any, tuple[Tensor, ...]]]) -> Result:
    target, args = make()
    calls: dict[str, Call] = {"eager": (target, args)}
    first: dict[str, float] = {}
    for engine, compile in ENGINES.items():
        backend = PresetBackend()
        compiled = compile(target, backend=backend, fullgraph=True)
        start = time.perf_counter()
        compiled(*args)
        first[engine] = time.perf_counter() - start
        calls[engine] = compiled, args
        calls[f"{engine}, graph"] = backend.run, backend.inputs
    times = interleaved(calls, _ROUNDS, _SAMPLE_SECONDS)
    overhead = {engine: times[engine] - times[f"{engine}, graph"] for engine in ENGINES}
    return Result(name, times["eager"], overhead, first)


# ---------------------------------------------------------------------- showing

_HEAD: Final = ("program", "eager call", *(f"{name} adds" for name in ENGINES), "first calls")


def _rows(results: list[Result]) -> Iterator[tuple[str, ...]]:
    for each in results:
        added = (f"{1e6 * seconds:.2f} µs" for seconds in each.overhead.values())
        first = " / ".join(f"{1e3 * seconds:.0f} ms" for seconds in each.first.values())
        yield (each.name, f"{1e6 * each.eager:.2f} µs", *added, first)


def _lines(results: list[Result]) -> Iterator[str]:
    table = [_HEAD, *_rows(results)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([row[0].ljust(widths[0]), *cells])
    yield ""
    yield from _NOTES


_NOTES: Final = (
    "A compiled call costs what the backend's code costs, and what is added: arguments, guards,",
    f"dispatch. First calls ({' / '.join(ENGINES)}) trace and compile; the backend takes no time.",
)


def _draw(results: list[Result]) -> None:
    screen.grid(_HEAD, list(_rows(results)), "\n".join(_NOTES), sys.stdout)
