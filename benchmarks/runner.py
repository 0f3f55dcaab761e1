"""What benchmarks of several cases share: the command line, a process for each case, a table.

`by_case` is for cases in which all engines take turns in one process, `by_engine` for those where
each engine has a process of its own. A process is started as `python -m MODULE --child …` and
prints its result as JSON.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch

from benchmarks.zoo.engines import PEER
from benchmarks.zoo.measure import error_line

Result = dict[str, Any]
LIMIT_S: Final = 300.0
DEFAULT_ENGINES: Final = f"{PEER},stator:compile"


def by_case(
    module: str,
    description: str,
    names: Iterable[str],
    measure: Callable[[str, list[str], int], Result],
    head: Callable[[list[str]], str],
    row: Callable[[Result, list[str]], str],
    argv: list[str] | None,
) -> int:
    """Measures all engines in each case's process; prints a row for each case."""
    names = tuple(names)
    parser = arguments(description, names)
    parser.add_argument("--engines", default=DEFAULT_ENGINES, help="default: %(default)s")
    options = parsed(parser, names, argv)
    engines = options.engines.split(",")
    rounds = 5 if options.quick else 15
    if options.child:
        print(json.dumps(measure(options.child, engines, rounds)))
        return 0
    if not options.json:
        print(f"{versions()}, CPU time, median of {rounds} rounds\n{head(engines)}")
    results = []
    passed = ["--engines", options.engines, *(["--quick"] if options.quick else [])]
    for name in options.names or names:
        results.append({"name": name} | in_process(module, ["--child", name, *passed]))
        if not options.json:
            print(row(results[-1], engines), flush=True)
    if options.json:
        print_json(cases=results)
    else:
        for line in problems(results):
            print(line)
    return 0


def by_engine(
    module: str,
    description: str,
    names: Sequence[str],
    engines: Sequence[str],
    measure: Callable[[str, str, int], Result],
    head: Callable[[str], str],
    rows: Callable[[str, dict[str, Result]], Iterable[str]],
    argv: list[str] | None,
) -> int:
    """Measures each engine in a process of its own; prints the rows of each case.

    Cases that have the same head are in one table.
    """
    parser = arguments(description, names)
    options = parsed(parser, names, argv)
    rounds = 5 if options.quick else 15
    if options.child:
        try:
            result = measure(options.child, options.names[0], rounds)
        except Exception as error:
            result = {"failed": error_line(error)}
        print(json.dumps(result))
        return 0
    passed = ["--quick"] if options.quick else []
    found: dict[str, dict[str, Result]] = {}
    if not options.json:
        print(f"{versions()}, CPU time over the bare graphs, median of {rounds} rounds")
    shown_head = ""
    for name in options.names or names:
        found[name] = {
            engine: in_process(module, ["--child", engine, *passed, name]) for engine in engines
        }
        if options.json:
            continue
        if head(name) != shown_head:
            shown_head = head(name)
            print(f"\n{shown_head}")
        for line in rows(name, found[name]):
            print(line, flush=True)
    if options.json:
        print_json(cases=found)
    return 0


# ---------------------------------------------------------------- the parts of it


def arguments(description: str, names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    return parser


def parsed(parser: argparse.ArgumentParser, names: Iterable[str], argv: list[str] | None) -> Any:
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(names):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    return options


def versions() -> str:
    return f"Python {platform.python_version()}, torch {torch.__version__}, one thread"


def in_process(module: str, arguments: list[str]) -> Result:
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


def shown(value: float | None, scale: float = 1e6, digits: int = 2) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def problems(results: list[Result]) -> list[str]:
    """What went wrong, each reason once, with the cases it stopped."""
    found: dict[str, list[str]] = {}
    for result in results:
        reasons = [f"{spec}: {text}" for spec, text in (result.get("errors") or {}).items()]
        for reason in [*reasons, *filter(None, [result.get("failed")])]:
            found.setdefault(reason, []).append(result["name"])
    return [f"{reason} ({', '.join(names)})" for reason, names in found.items()]


def print_json(**parts: Any) -> None:
    print(json.dumps({"python": platform.python_version()} | parts, indent=1))
