"""Checks a fix: one full graph, compiled as often as allowed, and the results of the original.

    python check.py original.py fixed.py [--compiles 1] [--ops 1] [--backend aot_eager]

Both files have the form of programs.py. Each is run with several seeds; the original as it is, the
fixed one with its function compiled with `fullgraph=True`. What counts: what main() returns, what
is printed, and the exception, if there is one. It must be the same with a backend that compiles
gradients, too. A last run with wrong numbers in the graph's results shows that the results come
from the graph. Prints a verdict as JSON; exit status 0 if it is good.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import breaks
import programs
import torch
from runs import SEEDS, Outcome, Recording, Watched, eager_calls, outcome, quiet

import stator


@dataclass
class Verdict:
    """Whether a fix is good, and if not, why; with what was seen of it."""

    good: bool
    why: str = ""
    reason: str = ""
    """The id of the graph break, of the recompile or of the decision, if that is why."""
    compiles: int = 0
    eager: int = 0
    """Calls that no one graph served, since their values go another way than the graph."""
    graphs: list[list[str]] = field(default_factory=list)


def check(
    original: str, fixed: str, *, compiles: int = 1, ops: int = 1, backend: str = "aot_eager"
) -> Verdict:
    """The verdict on one file as a fix of another."""
    verdict = Verdict(False)
    for seed in SEEDS:
        with quiet():
            program = programs.load(original)
            expected = outcome(program.main, program.step, seed)
            program = programs.load(fixed)
            recording = Recording()
            watched = Watched(program.step, program.options, recording)
            found = outcome(program.main, watched, seed)
        verdict.compiles, verdict.graphs = watched.compiles, recording.graphs
        verdict.why = _complaint(watched, recording, expected, found, compiles, ops)
        if verdict.why:
            verdict.reason = _reason(watched, compiles)
            return verdict
    verdict.eager = eager_calls(fixed)
    if verdict.eager:
        verdict.reason, where = _decision(fixed)
        verdict.why = f"{verdict.eager} calls need another graph: it depends on values which one"
        verdict.why += f"\n{where}" if where else ""
    else:
        verdict.why = _with_backend(fixed, expected, backend)
    if not verdict.why and not _from_the_graph(fixed, expected):
        verdict.why = "the results do not come from the graph"
    verdict.good = not verdict.why
    return verdict


def _decision(fixed: str) -> tuple[str, str]:
    """What the way of a call depends on, with the id of its page: where the program is split
    without `fullgraph=True`.
    """
    with quiet():
        found = breaks.report(fixed)["breaks"]
    if not found:
        return "", ""
    first = found[0]
    lines = [f"at {each}" for each in first["callers"]]
    lines += [f"at {first['file']}:{first['line']}", f"    {first['text']}"]
    lines += [f"fix: {first['fix']}", f"[{first['id']}] {first['title']}"]
    return first["id"], "\n".join(f"  {line}" for line in lines)


def _with_backend(fixed: str, expected: Outcome, backend: str) -> str:
    """What is otherwise with a backend that compiles gradients: there, the results of a graph are
    made in one go, and none of them is computed from another.
    """
    with quiet():
        program = programs.load(fixed)
        watched = Watched(program.step, program.options, backend)
        found = outcome(program.main, watched, SEEDS[-1])
    told = _failure(watched) or difference(expected, found)
    return f"with the backend {backend}, not what the original does: {told}" if told else ""


def _from_the_graph(fixed: str, expected: Outcome) -> bool:
    """Whether wrong numbers in the graph's results show in what main() returns."""
    with quiet():
        program = programs.load(fixed)
        watched = Watched(program.step, program.options, Recording(spoil=True))
        return difference(expected, outcome(program.main, watched, SEEDS[-1])) is not None


def _complaint(
    watched: Watched,
    backend: Recording,
    expected: Outcome,
    found: Outcome,
    compiles: int,
    ops: int,
) -> str:
    """What is wrong with a run, in the words of whoever has to fix it; "" if nothing."""
    if failure := _failure(watched):
        return failure
    if not watched.calls:
        return "the compiled function was not called"
    if different := difference(expected, found):
        return f"not what the original does: {different}"
    if watched.compiles > compiles:
        times = f"it was compiled {watched.compiles} times, {compiles} allowed"
        return "\n".join([times, *map(str, watched.recompiles)])
    if watched.others:
        return ""  # which is the reason to give
    fewest = min(map(len, backend.graphs), default=0)
    if fewest < ops:
        return f"a graph has {fewest} operations, at least {ops} are expected: where is the work?"
    return ""


def _reason(watched: Watched, compiles: int) -> str:
    """Of the break, or of the first recompile that is one too many."""
    if isinstance(watched.failure, stator.CaptureError):
        return watched.failure.id
    return next((why.id for why in watched.recompiles[compiles - 1 :]), "")


def _failure(watched: Watched) -> str:
    """Why the function could not be compiled; "" if it was."""
    if isinstance(watched.failure, stator.InternalError):
        return f"stator has failed, which is not the program's fault: {watched.failure}"
    return "" if watched.failure is None else str(watched.failure)


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
    parser.add_argument("--backend", default="aot_eager", help="for the results; aot_eager")
    given = parser.parse_args()
    try:
        verdict = check(
            given.original,
            given.fixed,
            compiles=given.compiles,
            ops=given.ops,
            backend=given.backend,
        )
    except programs.ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(dataclasses.asdict(verdict), indent=2))
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(_main())
