"""How fast the evaluator is: instructions per second, and the slowdown against CPython.

    python -m benchmarks.evaluator [--quick] [--json] [NAME ...]

Each workload runs natively and evaluated in turns, several times; the best time of each counts.
Instructions are counted once, natively, by opcode tracing.
"""

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

from stator.evaluator import run

Workload = Callable[[int], Any]
WORKLOADS: dict[str, Workload] = {}


def workload(fn: Workload) -> Workload:
    WORKLOADS[fn.__name__] = fn
    return fn


@workload
def while_loop(n: int) -> int:
    i = total = 0
    while i < n:
        total += i & 3
        i += 1
    return total


@workload
def for_range(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def add(a: int, b: int = 1, *, scale: int = 1) -> int:
    return a + b * scale


@workload
def function_calls(n: int) -> int:
    total = 0
    for i in range(n):
        total = add(total, i)
        total = add(total, scale=2)
    return total


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y

    def moved(self, dx: int) -> int:
        return self.x + dx


@workload
def method_calls(n: int) -> int:
    point = Point(1, 2)
    total = 0
    for i in range(n):
        total += point.moved(i)
    return total


@workload
def attributes(n: int) -> int:
    point = Point(1, 2)
    for _ in range(n):
        point.x = point.x + point.y
        point.y = point.x - point.y
        point.x = point.x & 1023
        point.y = point.y & 1023
    return point.x


@workload
def comprehensions(n: int) -> int:
    squares = [i * i for i in range(n) if i % 3]
    places = {i: square for i, square in enumerate(squares)}  # noqa: C416
    return sum(place for place in places.values())


@workload
def exceptions(n: int) -> int:
    caught = 0
    for i in range(n):
        try:
            if i % 2:
                raise ValueError(i)
            [][i]
        except (ValueError, IndexError) as error:
            caught += len(error.args)
        finally:
            caught += 1
    return caught


@workload
def generators(n: int) -> int:
    def numbers() -> Any:
        yield from countdown()

    def countdown() -> Any:
        i = n
        while i:
            yield i
            i -= 1

    total = 0
    for number in numbers():
        total += number
    return total


@workload
def formatting(n: int) -> int:
    length = 0
    for i in range(n):
        length += len(f"{i}: {i:>8} {i / 3:.2f} {'item'!r}")
    return length


@workload
def subscripts(n: int) -> int:
    items = [0, 1, 2, 3]
    table = {0: "a", 1: "b", 2: "c", 3: "d"}
    found = 0
    for i in range(n):
        key = items[i & 3]
        items[i & 3] = key
        if table[key] in "ab":
            found += 1
        table[key] = table[key]
    return found


@dataclass(frozen=True)
class Measurement:
    """One workload; times in seconds for one run of it."""

    name: str
    instructions: int
    native_s: float
    evaluated_s: float

    @property
    def rate(self) -> float:
        """Millions of instructions that the evaluator executes per second."""
        return self.instructions / self.evaluated_s / 1e6

    @property
    def native_rate(self) -> float:
        return self.instructions / self.native_s / 1e6

    @property
    def slowdown(self) -> float:
        return self.evaluated_s / self.native_s


def count_instructions(fn: Workload, n: int) -> int:
    """How many instructions CPython executes in ``fn(n)``, called functions included."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    previous = sys.gettrace()
    try:
        for size in (1, n):  # 3.12 sends opcode events from the settrace() after the first request
            count = 0
            sys.settrace(trace)
            fn(size)
    finally:
        sys.settrace(previous)
    return count


def timed(call: Callable[[], Any], repeat: int = 1) -> float:
    began = time.process_time()
    for _ in range(repeat):
        call()
    return (time.process_time() - began) / repeat


def measure(fn: Workload, n: int, rounds: int) -> Measurement:
    expected = fn(n)
    if run(fn, n) != expected:
        raise AssertionError(f"{fn.__name__}: the evaluator's answer differs from CPython's")
    repeat = max(1, round(0.01 / timed(lambda: fn(n), 3)))  # long enough for the clock
    native, evaluated = [], []
    for _ in range(rounds):
        native.append(timed(lambda: fn(n), repeat))
        evaluated.append(timed(lambda: run(fn, n)))
    return Measurement(fn.__name__, count_instructions(fn, n), min(native), min(evaluated))


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


HEAD = (
    f"{'workload':<16} {'instructions':>12} {'CPython':>10} {'evaluator':>10} {'slowdown':>9}\n"
    f"{'':<16} {'':>12} {'M/s':>10} {'M/s':>10} {'times':>9}"
)


def row(m: Measurement) -> str:
    return (
        f"{m.name:<16} {m.instructions:>12,} {m.native_rate:>10.1f} "
        f"{m.rate:>10.2f} {m.slowdown:>9.1f}"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Speed of the evaluator against CPython.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repetitions")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORKLOADS)}")
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    n, rounds = (500, 3) if options.quick else (5000, 7)
    measurements = []
    if not options.json:
        print(f"Python {platform.python_version()}, best of {rounds}\n{HEAD}")
    for name in options.names or WORKLOADS:
        measurements.append(measure(WORKLOADS[name], n, rounds))
        if not options.json:
            print(row(measurements[-1]), flush=True)
    mean = geometric_mean([m.slowdown for m in measurements])
    if options.json:
        rows = [
            asdict(m) | {"instructions_per_s": m.rate * 1e6, "slowdown": m.slowdown}
            for m in measurements
        ]
        result = {"python": platform.python_version(), "workloads": rows, "mean_slowdown": mean}
        print(json.dumps(result, indent=1))
    else:
        print(f"{'geometric mean':<50} {mean:>10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
