"""Checks a fix: one full graph, compiled as often as allowed, and the results of the original.

    python check.py original.py fixed.py [--compiles 1] [--ops 1]

Both files have the form of programs.py. Each is run with several seeds; the original as it is, the
fixed one with its function compiled with `fullgraph=True`. What counts: what main() returns, what
is printed, and the exception, if there is one. A last run with wrong numbers in the graph's results
shows that the results come from the graph. Prints a verdict as JSON; exit status 0 if it is good.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import programs
import torch

import stator

_SEEDS: Final = (1, 2)


@dataclass(frozen=True)
class Outcome:
    """What a run shows to whoever started it."""

    result: Any
    printed: str
    error: str


@dataclass
class Verdict:
    """Whether a fix is good, and if not, why; with what was seen of it."""

    good: bool
    why: str = ""
    reason: str = ""
    """The id of the graph break or of the recompile, if that is why."""
    compiles: int = 0
    eager: int = 0
    """Calls that no graph served, since their values go another way than the graph."""
    graphs: list[list[str]] = field(default_factory=list)


class _Watched:
    """The compiled function, as main() gets it: counts calls, and keeps what it can't capture."""

    def __init__(
        self, step: Callable[..., Any], options: dict[str, Any], backend: Callable[..., Any]
    ) -> None:
        options = {**options, "fullgraph": True, "backend": backend, "isolate_recompiles": True}
        self._compiled = stator.compile(step, **options)
        self.calls = 0
        self.failure: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        try:
            return self._compiled(*args, **kwargs)
        except (stator.CaptureError, stator.RecompileError, stator.BackendError) as error:
            self.failure = self.failure or error
            raise

    @property
    def compiles(self) -> int:
        return stator.testing.count(self._compiled).compiles

    @property
    def recompiles(self) -> tuple[Any, ...]:
        return stator.testing.recompiles(self._compiled)


class _Recording:
    """A backend that runs graphs as they are, and keeps what they call."""

    def __init__(self, spoil: bool = False) -> None:
        self.graphs: list[list[str]] = []
        self._spoil = spoil

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
        self.graphs.append([getattr(each.target, "__name__", str(each.target)) for each in calls])
        if not self._spoil:
            return module.forward
        return _spoiling(module.forward)


def _spoiling(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that gives wrong numbers, also in the inputs that it changes."""

    def call(*args: Any) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        before = [(each, each._version) for each in tensors if not each.is_inference()]
        results = forward(*args)
        with torch.no_grad():
            for each, version in before:
                if each._version != version and each.dtype is not torch.bool:
                    each.add_(1)
        return tuple(map(_spoiled, results))

    return call


def _spoiled(value: Any) -> Any:
    """Another value of the same kind; not of flags, by which a graph tells that it is valid."""
    if isinstance(value, torch.Tensor) and value.dtype is not torch.bool:
        return value + 1
    return value


def check(original: str, fixed: str, *, compiles: int = 1, ops: int = 1) -> Verdict:
    """The verdict on one file as a fix of another."""
    verdict = Verdict(False)
    for seed in _SEEDS:
        with _quiet():
            program = programs.load(original)
            expected = outcome(program.main, program.step, seed)
            program = programs.load(fixed)
            backend = _Recording()
            watched = _Watched(program.step, program.options, backend)
            found = outcome(program.main, watched, seed)
        verdict.compiles, verdict.graphs = watched.compiles, backend.graphs
        verdict.why = _complaint(watched, backend, expected, found, compiles, ops)
        if verdict.why:
            verdict.reason = _reason(watched, compiles)
            return verdict
    verdict.eager = _eager_calls(fixed)
    if verdict.eager:
        verdict.why = f"{verdict.eager} calls ran eagerly: which way they go depends on values"
    elif not _from_the_graph(fixed, expected):
        verdict.why = "the results do not come from the graph"
    verdict.good = not verdict.why
    return verdict


def _eager_calls(fixed: str) -> int:
    """How often the function ran as it is: a graph that was made for one side of a branch gives way
    to it where the values are on the other side.
    """
    count = 0

    def noting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        if not stator.is_compiling():
            count += 1
        return program.step(*args, **kwargs)

    with _quiet():
        program = programs.load(fixed)
        outcome(program.main, _Watched(noting, program.options, _Recording()), _SEEDS[0])
    return count


def _from_the_graph(fixed: str, expected: Outcome) -> bool:
    """Whether wrong numbers in the graph's results show in what main() returns."""
    with _quiet():
        program = programs.load(fixed)
        watched = _Watched(program.step, program.options, _Recording(spoil=True))
        return difference(expected, outcome(program.main, watched, _SEEDS[-1])) is not None


def _complaint(
    watched: _Watched,
    backend: _Recording,
    expected: Outcome,
    found: Outcome,
    compiles: int,
    ops: int,
) -> str:
    """What is wrong with a run, in the words of whoever has to fix it; "" if nothing."""
    if watched.failure is not None:
        return str(watched.failure)
    if not watched.calls:
        return "the compiled function was not called"
    if different := difference(expected, found):
        return f"not what the original does: {different}"
    if watched.compiles > compiles:
        times = f"it was compiled {watched.compiles} times, {compiles} allowed"
        return "\n".join([times, *map(str, watched.recompiles)])
    fewest = min(map(len, backend.graphs), default=0)
    if fewest < ops:
        return f"a graph has {fewest} operations, at least {ops} are expected: where is the work?"
    return ""


def _reason(watched: _Watched, compiles: int) -> str:
    """Of the break, or of the first recompile that is one too many."""
    if isinstance(watched.failure, stator.CaptureError):
        return watched.failure.id
    return next((why.id for why in watched.recompiles[compiles - 1 :]), "")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What a program does to the settings of the process is taken back."""
    dtype, threads, state = torch.get_default_dtype(), torch.get_num_threads(), random.getstate()
    grad = torch.is_grad_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(grad)
    random.setstate(state)


def outcome(main: Callable[[Any], Any], step: Callable[..., Any], seed: int) -> Outcome:
    """Runs a program, with all random generators in a known state."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    printed, result, error = io.StringIO(), None, ""
    with contextlib.redirect_stdout(printed):
        try:
            result = main(step)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return Outcome(result, printed.getvalue(), error)


# ---------------------------------------------------------------------- the same


def difference(expected: Outcome, found: Outcome) -> str | None:
    """Where two runs differ, in words; None if they don't."""
    if expected.error != found.error:
        return f"raises {found.error or 'nothing'}, not {expected.error or 'nothing'}"
    if expected.printed != found.printed:
        return f"prints {found.printed!r}, not {expected.printed!r}"
    return _different(expected.result, found.result, "the result")


def _different(a: Any, b: Any, where: str) -> str | None:
    if type(a) is not type(b) and type(a).__qualname__ != type(b).__qualname__:
        return f"{where} is of type {type(b).__qualname__}, not {type(a).__qualname__}"
    if isinstance(a, torch.Tensor):
        return _different_tensors(a, b, where)
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{where} has the keys {list(b)}, not {list(a)}"
        return _first(_different(a[key], b[key], f"{where}[{key!r}]") for key in a)
    if type(a).__module__ == "numpy":
        kinds = [(str(each.dtype), each.shape) for each in (a, b)]
        return _different([kinds[0], a.tolist()], [kinds[1], b.tolist()], where)
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return f"{where} has {len(b)} items, not {len(a)}"
        pairs = enumerate(zip(a, b, strict=True))
        return _first(_different(x, y, f"{where}[{index}]") for index, (x, y) in pairs)
    if isinstance(a, float):
        same = abs(a - b) <= 1e-4 * max(1.0, abs(a)) or (a != a and b != b)
        return None if same else f"{where} is {b}, not {a}"
    if isinstance(a, int | str | bytes | bool | set | frozenset | torch.dtype) or a is None:
        return None if a == b else f"{where} is {b!r}, not {a!r}"
    return None if type(a).__module__.startswith("torch") else _different_objects(a, b, where)


def _different_objects(a: Any, b: Any, where: str) -> str | None:
    return _different(getattr(a, "__dict__", {}), getattr(b, "__dict__", {}), f"{where}.__dict__")


def _different_tensors(a: torch.Tensor, b: torch.Tensor, where: str) -> str | None:
    kinds = [(each.dtype, tuple(each.shape), each.requires_grad) for each in (a, b)]
    if kinds[0] != kinds[1]:
        return f"{where} is {kinds[1]}, not {kinds[0]} (dtype, shape, requires_grad)"
    try:
        torch.testing.assert_close(b.detach(), a.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        return f"{where} has other values: {str(error).splitlines()[0]}"
    return None


def _first(found: Iterator[str | None]) -> str | None:
    return next((each for each in found if each is not None), None)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("original", help="the file as it was; file.py::function")
    parser.add_argument("fixed", help="the file as it is now")
    parser.add_argument("--compiles", type=int, default=1, help="how many are allowed; 1")
    parser.add_argument("--ops", type=int, default=1, help="operations per graph, at least; 1")
    given = parser.parse_args()
    try:
        verdict = check(given.original, given.fixed, compiles=given.compiles, ops=given.ops)
    except programs.ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(dataclasses.asdict(verdict), indent=2))
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(_main())
