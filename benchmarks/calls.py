"""What a compiled call costs over the bare graph: argument binding, guards, dispatch.

    python -m benchmarks.calls [--quick] [--json] [--engines torch,stator:compile] [NAME ...]

The backend's compiled graph does nothing: it returns the outputs of its first call. So the time
of a call is the front end's alone, and "bare" is that same callable with its inputs at hand.
Each case runs in its own process; inside it, bare graph and engines take turns. Medians of the
CPU time count.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.runner import by_case, shown
from benchmarks.zoo.engines import load
from benchmarks.zoo.measure import error_line
from stator.cli.timing import Call, PresetBackend, interleaved

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


def measure(name: str, engines: list[str], rounds: int) -> dict[str, Any]:
    """Seconds per call of every engine and of its bare graph; errors in words."""
    torch.set_num_threads(1)
    calls: dict[str, Call] = {}
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


def overhead(result: dict[str, Any], spec: str) -> float | None:
    times = result.get("times") or {}
    return times[spec] - times[f"{BARE} {spec}"] if spec in times else None


def ratio(result: dict[str, Any], engines: list[str]) -> float | None:
    """Of the last engine's overhead to the first's; below 1, the last is cheaper."""
    first, last = overhead(result, engines[0]), overhead(result, engines[-1])
    return last / first if first and last else None


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


def main(argv: list[str] | None = None) -> int:
    description = "Cost of a compiled call over the bare graph."
    return by_case("benchmarks.calls", description, CASES, measure, head, row, argv)


if __name__ == "__main__":
    sys.exit(main())
