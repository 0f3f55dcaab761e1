"""What a call of a compiled function costs, against a plain Python call of the same function.

    python -m benchmarks.dispatch [--quick] [--json]

Each way of calling runs in its own loop, in turns, many times; the best time of each counts. Times
are per call, less the empty loop. A compiled function has one entry with one guard (the exact type
of the first parameter) whose target is the function itself, so the difference is dispatch alone.
"""

import argparse
import functools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from stator._native._core import CALL_ORIGINAL, CompiledFunction, GuardTree, hook_installed
from stator.guards import Attr, Guard, Key, Local, TypeIs, compile

TARGET = 2.5  # a hit may cost that many plain calls
Loop = Callable[[int, Any], float]

LOOP = """
def loop(n, f):
    start = clock()
    for _ in range(n):
        {statement}
    return clock() - start
"""


def loop(statement: str) -> Loop:
    """A loop of its own, since the interpreter specializes instructions for what they call."""
    namespace: dict[str, Any] = {"clock": time.perf_counter}
    exec(LOOP.format(statement=statement), namespace)
    made: Loop = namespace["loop"]
    return made


def function(a: Any, b: Any = 2) -> Any:
    return a


def keyword_function(a: Any, *args: Any, k: Any = 3, **kw: Any) -> Any:
    return a


def keyword_target(a: Any, k: Any, args: Any, kw: Any) -> Any:
    return a


def trivial_guard(cls: type) -> GuardTree:
    """The exact type of the first parameter."""
    return compile([Guard(Local(0), TypeIs(cls))])


def compiled(f: Any, target: Any = None, guards: Any = trivial_guard) -> CompiledFunction:
    made = CompiledFunction(f, lambda _, bound: CALL_ORIGINAL)
    made.add_entry(guards and guards(int), target or f)
    return made


def wrapped(f: Any) -> Any:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return wrapper


def several_entries() -> CompiledFunction:
    made = compiled(function)
    for cls in (str, float, bytes):
        made.add_entry(trivial_guard(cls), function)
    return made


class Plain:
    def method(self, a: Any) -> Any:
        return a


class Compiled:
    method = CompiledFunction(Plain.method, lambda _, bound: CALL_ORIGINAL)


Compiled.method.add_entry(None, Plain.method)


class Holder:
    """What a module holds."""

    def __init__(self, n: int) -> None:
        self.parameters = {f"p{i}": object() for i in range(n)}


def fetching(n: int) -> Any:
    """A function of one argument whose target takes n values that the argument holds."""

    def first(holder: Any) -> Any:
        return holder

    def target(fetched: tuple[Any, ...], holder: Any) -> Any:
        return holder

    made = CompiledFunction(first, lambda _, bound: CALL_ORIGINAL)
    source = Local(0)
    outputs = [Key(Attr(source, "parameters"), f"p{i}") for i in range(n)]
    made.add_entry(compile([Guard(source, TypeIs(Holder))], outputs=outputs), target, fetch=True)
    holder = Holder(n)
    return functools.partial(made, holder)


def not_fetching(n: int) -> Any:
    """The same guards and values, for a target that takes none of them."""
    made = fetching(n)
    (entry,) = made.func.entries()
    made.func.clear()
    made.func.add_entry(entry.guards, made.func.__wrapped__)
    return made


def torch_compiled() -> Any:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return None
    made = torch.compile(function, backend="eager")
    made(1, 2)
    return made


# name, how to call, what is called; each group is compared with its first row
GROUPS: dict[str, list[tuple[str, str, Any]]] = {
    "f(1, 2)": [
        ("plain call", "f(1, 2)", function),
        ("compiled, one guard", "f(1, 2)", compiled(function)),
        ("compiled, no guard", "f(1, 2)", compiled(function, guards=None)),
        ("compiled, forth and back between 2 of 4 entries", "f(1, 2); f('', 2)", several_entries()),
        ("functools.partial", "f(1, 2)", functools.partial(function)),
        ("functools.wraps wrapper", "f(1, 2)", wrapped(function)),
        ("torch.compile, backend eager", "f(1, 2)", torch_compiled()),
    ],
    "f(1), a default": [
        ("plain call", "f(1)", function),
        ("compiled, one guard", "f(1)", compiled(function)),
        ("functools.wraps wrapper", "f(1)", wrapped(function)),
    ],
    "f(b=1, a=2)": [
        ("plain call", "f(b=1, a=2)", function),
        ("compiled, one guard", "f(b=1, a=2)", compiled(function)),
        ("functools.wraps wrapper", "f(b=1, a=2)", wrapped(function)),
    ],
    "f(1, 2, z=3) with *args, **kw": [
        ("plain call", "f(1, 2, z=3)", keyword_function),
        ("compiled, one guard", "f(1, 2, z=3)", compiled(keyword_function, keyword_target)),
        ("functools.wraps wrapper", "f(1, 2, z=3)", wrapped(keyword_function)),
    ],
    "f(), values that the guards fetch": [
        ("1, not passed on", "f()", not_fetching(1)),
        ("1", "f()", fetching(1)),
        ("10", "f()", fetching(10)),
        ("1,200, not passed on", "f()", not_fetching(1200)),
        ("1,200", "f()", fetching(1200)),
    ],
    "f.method(1)": [
        ("plain call", "f.method(1)", Plain()),
        ("compiled, no guard", "f.method(1)", Compiled()),
    ],
}


def measure(rounds: int, n: int) -> dict[str, dict[str, float]]:
    """Nanoseconds per call, less the empty loop, by group and row."""
    empty = loop("pass")
    rows = [
        (group, name, statement.count("f("), loop(statement), callee)
        for group, members in GROUPS.items()
        for name, statement, callee in members
        if callee is not None
    ]
    best = [float("inf")] * len(rows)
    best_empty = float("inf")
    for _ in range(rounds):
        best_empty = min(best_empty, empty(n, None))
        for i, (_, _, _, run, callee) in enumerate(rows):
            best[i] = min(best[i], run(n, callee))
    result: dict[str, dict[str, float]] = {}
    for (group, name, calls, _, _), seconds in zip(rows, best, strict=True):
        each = (seconds - best_empty) / n / max(calls, 1)
        result.setdefault(group, {})[name] = each * 1e9
    result["loop"] = {"empty": best_empty / n * 1e9}
    return result


IDLE = """
import sys, time
def function(a, b=2): return a
{setup}
def loop(n, f):
    start = time.perf_counter()
    for _ in range(n): f(1, 2)
    return time.perf_counter() - start
print(min(loop(2000, function) for _ in range({rounds})) / 2000 * 1e9)
"""
LOADED = """
from stator._native._core import CompiledFunction
compiled = CompiledFunction(function, print)
compiled.add_entry(None, function)
compiled(1, 2)
"""


def idle(rounds: int) -> dict[str, float]:
    """A plain call in a process without stator, and in one that has used it."""
    best = {"without stator": float("inf"), "with stator, idle": float("inf")}
    for _ in range(3):
        for name, setup in zip(best, ("", LOADED), strict=True):
            program = IDLE.format(setup=setup, rounds=rounds)
            output = subprocess.check_output([sys.executable, "-c", program], text=True)
            best[name] = min(best[name], float(output))
    assert not hook_installed()
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    rounds = 100 if options.quick else 1000
    results = measure(rounds, 2000)
    idling = idle(rounds)
    hit, plain = (results["f(1, 2)"][name] for name in ("compiled, one guard", "plain call"))
    around = results["loop"]["empty"]
    if options.json:
        print(
            json.dumps({"python": platform.python_version(), **results, "idle": idling}, indent=2)
        )
        return 0
    print(
        f"Python {platform.python_version()}, nanoseconds per call without the loop ({around:.1f})"
    )
    for group, members in {**results, "idle: f(1, 2), loop included": idling}.items():
        if group == "loop":
            continue
        print(f"\n{group}")
        reference = next(iter(members.values()))
        for name, ns in members.items():
            print(f"  {name:48} {ns:8.1f}  {ns / reference:6.2f}x")
    gross = (hit + around) / (plain + around)
    verdict = "met" if hit <= TARGET * plain else "MISSED"
    print(
        f"\na hit with one guard: {hit / plain:.2f} plain calls ({gross:.2f} with the loop); "
        f"target {TARGET}: {verdict}"
    )
    return verdict != "met"


if __name__ == "__main__":
    sys.exit(main())
