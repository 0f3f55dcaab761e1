"""What a run yields: the shapes that travel between the processes and end up in the JSON file."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

FAILING: Final = ("fail", "timeout", "crash")


class Outcome(TypedDict):
    """One test: pass, fail, timeout, crash; excluded if it does not pass natively."""

    status: str
    t: NotRequired[float | None]
    error: NotRequired[str | None]
    detail: NotRequired[str]


class ModuleRun(TypedDict):
    """One test module. ``skipped`` and ``import_error`` say why there are no tests."""

    tests: dict[str, Outcome]
    native_s: NotRequired[float]
    compiled_s: NotRequired[float]
    skipped: NotRequired[str]
    import_error: NotRequired[str]


class Results(TypedDict):
    """The file written by ``--out``; ``meta`` says how it came about."""

    engine: str
    meta: dict[str, Any]
    modules: dict[str, dict[str, Outcome]]


def tally(outcomes: Iterable[Outcome]) -> Counter[str]:
    return Counter(outcome["status"] for outcome in outcomes)


def total(counts: Counter[str]) -> int:
    """How many tests count: all but the excluded ones."""
    return counts.total() - counts["excluded"]


def overall(results: Results) -> Counter[str]:
    return tally(outcome for tests in results["modules"].values() for outcome in tests.values())


def read(path: str | Path) -> Results:
    with open(path) as file:
        results: Results = json.load(file)
    return results


def write(results: Results, path: str | Path) -> None:
    """Replace the file at once, so that a reader or a killed run never leaves half of it."""
    partial = f"{path}.tmp"
    with open(partial, "w") as file:
        json.dump(results, file, indent=1)
    os.replace(partial, path)
