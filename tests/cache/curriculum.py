"""The programs of `tests/capture`, each compiled with a cache: what a process makes of all of them.

    python -m tests.cache.curriculum OUT.json test_05_objects …

Run twice with one folder (STATOR_CACHE_DIR), the second process finds what the first has stored.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import stator
from stator.driver import cached
from stator.driver.ledger import ledgers_of
from tests.capture.harness import Program, Programs, call

FOLDER = Path(__file__).parents[1] / "capture"


def programs(names: list[str]) -> list[Program]:
    found: list[Program] = []
    for name in names or sorted(path.stem for path in FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.capture.{name}")
        for value in vars(module).values():
            if type(value) is Programs:
                found += value
    return found


def outcome(program: Program) -> dict[str, Any]:
    """What calls of a program do, next to eager, and what is said of its entries."""
    stator.reset()
    cached.NOT_STORED.clear()
    before = stator.counters()
    compiled = stator.compile(program.fn, backend="eager")
    wrong = []
    for seed, change in enumerate([None, None, *program.changes.values()], 1):
        expected = call(program, program.fn, seed, change).lines
        found = call(program, compiled, seed, change).lines
        if found != expected:
            wrong.append([expected, found])
    after = stator.counters()
    guards = {
        f"{made.label} {'cached' if made.cached else ''}": list(map(str, made.guards))
        for ledger in ledgers_of()
        for made in ledger.compilations
        if not made.eager
    }
    return {
        "wrong": wrong,
        "compiles": after["compiles"] - before["compiles"],
        "loaded": after["loaded"] - before["loaded"],
        "guards": guards,
        "not stored": dict(cached.NOT_STORED),
    }


def main(out: str, *names: str) -> None:
    found = {}
    for program in programs(list(names)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[program.key] = outcome(program)
            except Exception as error:
                found[program.key] = {"error": f"{type(error).__name__}: {error}"}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
