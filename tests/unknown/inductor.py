"""Programs whose sizes depend on values, compiled by Inductor, next to eager: also in training.

    python -m tests.unknown.inductor [--seeds FIRST LAST] [--plain | --training] [--kernels] [NAME]

Comes in: the programs of this folder, of tests/dynamic, of `networks`, and generated ones. Goes
out: a `Finding` for each call that differs, and for each graph that Inductor could not compile:
such a graph runs, but it is not compiled, which is counted here.

A C++ compiler takes most of the time, and few mistakes are its own. Unless `--kernels` is given,
Inductor writes its code, all of it, and the graph that it has written it from runs in its place.
"""

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import torch
from torch._functorch import config as aot_settings

import stator
from tests.dynamic import test_06_values as values
from tests.dynamic.harness import tensor

from . import networks
from . import test_programs as asking
from .generate import generate

Make = Callable[[], tuple[Any, ...]]
_CALLS: Final = 6  # of each program: a compilation takes seconds


@dataclass(frozen=True)
class Case:
    """A program, and how to make the arguments of its calls."""

    name: str
    function: Callable[..., Any]
    calls: Sequence[Make]


@dataclass(frozen=True)
class Finding:
    """What went wrong in a call."""

    kind: str
    call: int
    text: str


def cases() -> Iterator[Case]:
    """Written programs: those of other tests, and those of `networks`."""
    for function, calls in networks.PROGRAMS:
        yield Case(function.__name__, function, calls)
    for function, given in asking.PROGRAMS:
        chosen = [*given[:: max(1, len(given) // _CALLS)]][:_CALLS]
        yield Case(function.__name__, function, [lambda c=c: c for c in chosen])  # type: ignore[misc]
    sizes = [(4, 2), (5, 3), (6, 1), (6, 6), (7, 0), (3, -1), (1, 0), (0, 0)]
    for function in values.PROGRAMS:
        yield Case(
            function.__name__,
            function,
            [
                lambda n=n, t=t: (tensor(n, 3), tensor(2), torch.tensor(t))  # type: ignore[misc]
                for n, t in sizes
            ],
        )


def generated(first: int, last: int) -> Iterator[Case]:
    for seed in range(first, last):
        program = generate(seed)
        calls = list(program.calls(_CALLS))
        yield Case(f"program {seed}", program.function(), [lambda c=c: c for c in calls])  # type: ignore[misc]


def findings(case: Case, dynamic: bool | None, training: bool) -> Iterator[Finding]:
    """Makes all calls of a program; what differs from eager."""
    stator.reset()
    compiled = stator.compile(case.function, backend="inductor", dynamic=dynamic)
    for number, make in enumerate(case.calls):
        wanted = Outcome.of(case.function, make(), training)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = Outcome.of(compiled, make(), training)
        for warning in warned:
            text = str(warning.message)
            if "runs uncompiled" in text:
                yield Finding("uncompiled", number, text)
            elif "fail" in text:
                yield Finding("failure", number, text)
        different = wanted.difference(found)
        if different:
            yield Finding("different", number, different)


class Outcome:
    """What a call gives, changes and raises, and the gradients behind it."""

    def __init__(self) -> None:
        self.error: tuple[str, str] | None = None
        self.values: list[Any] = []
        self.gradients: list[torch.Tensor | None] = []

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], training: bool) -> "Outcome":
        made = cls()
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        leaves: list[torch.Tensor] = []
        if training:
            leaves = [a for a in given if isinstance(a, torch.Tensor) and a.is_floating_point()]
            # Not the leaves themselves, which a program could not change.
            given = [
                a.requires_grad_() * 1 if any(a is each for each in leaves) else a for a in given
            ]
        try:
            result = function(*given)
            made.values = list(_flat((result, given)))
            if leaves:
                made._differentiate(result, leaves)
        except Exception as error:
            made.error = type(error).__name__, str(error)
        return made

    def _differentiate(self, result: Any, leaves: Sequence[torch.Tensor]) -> None:
        ends = [t for t in _flat(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        if ends:
            total = sum(((t * t).sum() + t.sum() for t in ends), torch.zeros(()))
            found = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
            self.gradients = list(found)  # AOTAutograd, too, gives zeros where there is none

    def difference(self, other: "Outcome") -> str:
        if self.error != other.error:
            return f"raises {self.error}, compiled {other.error}"
        for mine, theirs in ((self.values, other.values), (self.gradients, other.gradients)):
            if len(mine) != len(theirs):
                return f"{mine} and {theirs}"
            for one, two in zip(mine, theirs, strict=True):
                if not _same(one, two):
                    return f"{one} and {two}"
        return ""


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        yield type(value), len(value)
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _same(one: Any, two: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return type(one) is type(two) and bool(one == two or one != one)
    kind = (one.shape, one.dtype, one.requires_grad) == (two.shape, two.dtype, two.requires_grad)
    if not kind or (min(one.shape, default=2) > 1 and one.stride() != two.stride()):
        return False
    return torch.allclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Inductor lowers graphs and writes code for them; what runs is the lowered graph."""
    lowering = import_module("torch._inductor.graph").GraphLowering
    settings = import_module("torch._inductor.config")
    with (
        stator.config.patch(torch_kernels=False),
        settings.patch(fx_graph_cache=False),
        aot_settings.patch(enable_autograd_cache=False),
        mock.patch.object(lowering, "_compile_to_module", _written),
    ):
        yield


def _written(lowering: Any) -> Any:
    code, _ = lowering.codegen()
    compile(code.value, "<code of Inductor>", "exec")
    graph = lowering.module

    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return graph.forward(*given)

    return SimpleNamespace(call=call, __file__="<code of Inductor>")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "LAST"))
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with nullcontext() if given.kernels else without_kernels():
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    chosen = generated(*given.seeds) if given.seeds else cases()
    ways = [
        training for training in (False, True) if not (given.plain if training else given.training)
    ]
    counts: Counter[str] = Counter()
    for position, case in enumerate(chosen):
        if given.names and case.name not in given.names:
            continue
        for training in ways:
            began = time.perf_counter()
            found = list(findings(case, (None, True)[position % 2], training))
            kinds = sorted({each.kind for each in found}) or ["same"]
            counts.update(kinds)
            seconds = time.perf_counter() - began
            way = "training" if training else "plain"
            print(f"{case.name:32} {way:9} {', '.join(kinds):12} {seconds:5.1f} s", flush=True)
            for each in found:
                print(f"    call {each.call}, {each.kind}: {each.text[:1500]}", flush=True)
    print(dict(counts))
    return 1 if set(counts) - {"same"} else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
