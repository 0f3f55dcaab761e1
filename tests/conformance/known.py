"""Lists of known failures: files that say, test by test, what an engine gets wrong and why.

    test_module::TestClass.test_name  # reason
    test_module::TestClass.test_slow  # flaky: reason      (may pass or fail)

A list is exact: a failure that is not listed is a regression, and a listed test that passes is a
line to delete. Only tests that ran are judged, so one list serves whole runs and slices.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.conformance.results import FAILING, Outcome, Results

HEADER: Final = """\
# Tests of CPython's own suite that do not pass, each with the reason. One per line:
#   module::TestClass.test_name  # reason
#   module::TestClass.test_name  # flaky: reason     (accepted either way)
"""
_SEPARATOR: Final = "  # "


class ListError(Exception):
    """A list of known failures that can't be read."""


@dataclass(frozen=True)
class Known:
    """One line of a list."""

    test: str
    reason: str

    @property
    def flaky(self) -> bool:
        return self.reason.startswith("flaky:")

    @property
    def module(self) -> str:
        return self.test.partition("::")[0]

    def __str__(self) -> str:
        return f"{self.test}{_SEPARATOR}{self.reason}"


@dataclass
class Verdict:
    """How a run differs from its list."""

    regressions: dict[str, str] = field(default_factory=dict)
    """Tests that failed and are not listed, with the error."""
    fixed: list[Known] = field(default_factory=list)
    """Listed tests that passed."""
    gone: list[Known] = field(default_factory=list)
    """Listed tests that their module no longer has."""

    def __bool__(self) -> bool:
        return not (self.regressions or self.fixed or self.gone)


def read(path: Path) -> dict[str, Known]:
    """The entries of a list by test."""
    entries: dict[str, Known] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        test, separator, reason = (part.strip() for part in line.partition(" # "))
        if "::" not in test or not separator or not reason:
            raise ListError(f"{path}:{number}: expected 'module::Class.test  # reason': {line!r}")
        if test in entries:
            raise ListError(f"{path}:{number}: {test} is listed twice")
        entries[test] = Known(test, reason)
    return entries


def _outcomes(results: Results) -> Iterator[tuple[str, Outcome]]:
    for module, tests in results["modules"].items():
        for name, outcome in tests.items():
            yield f"{module}::{name}", outcome


def _error(outcome: Outcome) -> str:
    """The error on one line, without what differs from machine to machine."""
    text = " ".join((outcome.get("error") or outcome["status"]).split())
    text = re.sub(r"\b0x[0-9a-f]+", "0x...", text)
    return re.sub(r"(?<![\w.])(/[\w.+-]+)+/(?=[\w.+-])", "", text)[:150]


def compare(results: Results, known: dict[str, Known], *, whole_modules: bool) -> Verdict:
    """Judge a run. ``whole_modules``: no test was filtered out, so a listed one must exist."""
    verdict = Verdict()
    outcomes = dict(_outcomes(results))
    for test, outcome in outcomes.items():
        entry = known.get(test)
        if outcome["status"] in FAILING and entry is None:
            verdict.regressions[test] = _error(outcome)
        elif outcome["status"] == "pass" and entry is not None and not entry.flaky:
            verdict.fixed.append(entry)
    if whole_modules:
        ran = {module for module, tests in results["modules"].items() if tests}
        verdict.gone = [
            entry for entry in known.values() if entry.module in ran and entry.test not in outcomes
        ]
    return verdict


def updated(results: Results, known: dict[str, Known], *, whole_modules: bool) -> list[Known]:
    """The list this run asks for: reasons are kept, and so is what the run says nothing about."""
    verdict = compare(results, known, whole_modules=whole_modules)
    drop = {entry.test for entry in verdict.fixed + verdict.gone}
    keep = [entry for entry in known.values() if entry.test not in drop]
    new = [Known(test, error) for test, error in verdict.regressions.items()]
    return sorted(keep + new, key=lambda entry: entry.test)


def write(path: Path, entries: list[Known]) -> None:
    path.write_text(HEADER + "".join(f"{entry}\n" for entry in entries))
