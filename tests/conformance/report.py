"""Tables and lists for the terminal."""

import collections
from collections import Counter

from tests.conformance.known import Verdict
from tests.conformance.modules import LANGUAGE, LIBRARY
from tests.conformance.results import FAILING, ModuleRun, Results, overall, tally, total

HEAD = (
    f"{'module':<32} {'total':>6} {'pass':>6} {'%':>7} "
    f"{'fail':>6} {'timeout':>8} {'crash':>6} {'excluded':>9}"
)


def row(label: str, counts: Counter[str], note: str = "") -> str:
    count = total(counts)
    rate = f"{100 * counts['pass'] / count:.1f}%" if count else "-"
    return (
        f"{label:<32} {count:>6} {counts['pass']:>6} {rate:>7} {counts['fail']:>6} "
        f"{counts['timeout']:>8} {counts['crash']:>6} {counts['excluded']:>9} {note}".rstrip()
    )


def module_row(name: str, run: ModuleRun) -> str:
    """A line of the progress table: one module that has just finished."""
    note = run.get("import_error") or run.get("skipped")
    if note is None:
        note = f"native {run['native_s']:g} s, compiled {run['compiled_s']:g} s"
    return row(name, tally(run["tests"].values()), note)


def table(results: Results) -> str:
    """Every module, then the sums."""
    modules, notes = results["modules"], results["meta"]["notes"]
    lines = [HEAD]
    rates = []
    for name, tests in modules.items():
        counts = tally(tests.values())
        lines.append(row(name, counts, notes.get(name, "")))
        if total(counts):
            rates.append(counts["pass"] / total(counts))
    lines.append(row("OVERALL", overall(results)))
    for label, group in (("  language modules", LANGUAGE), ("  library modules", LIBRARY)):
        counts = tally(o for name in group for o in modules.get(name, {}).values())
        if total(counts):
            lines.append(row(label, counts))
    if rates:
        mean = 100 * sum(rates) / len(rates)
        lines.append(f"mean of the {len(rates)} modules' rates: {mean:.1f}%")
    return "\n".join(lines)


def warnings(results: Results) -> str:
    """Why these results should not be believed, if there are reasons."""
    lines = []
    if bad := bad_probes(results):
        lines.append(f"WARNING: engine probes failed, do not believe these passes: {bad}")
    if not results["meta"].get("verified"):
        lines.append("NOTE: this engine has no verify(): that the compiled path ran is unchecked")
    return "\n".join(lines)


def bad_probes(results: Results) -> dict[str, str]:
    probes = results["meta"].get("canaries") or {"probes": "BAD (died)"}
    return {name: verdict for name, verdict in probes.items() if not verdict.startswith("ok")}


def reasons(results: Results, top: int = 20) -> str:
    """The most frequent errors."""
    why: Counter[str] = collections.Counter()
    for tests in results["modules"].values():
        for outcome in tests.values():
            if outcome["status"] in FAILING:
                why[outcome.get("error") or outcome["status"]] += 1
    if not why:
        return ""
    lines = [f"{count:>6}  {error[:150]}" for error, count in why.most_common(top)]
    return "\n".join([f"\ntop {top} failure reasons", *lines])


def full(results: Results) -> str:
    parts = (table(results), warnings(results), reasons(results))
    return "\n".join(part for part in parts if part)


def against_list(verdict: Verdict) -> str:
    """What differs from the list of known failures, and what to do about it."""
    lines = []
    if verdict.regressions:
        lines.append(f"\n{len(verdict.regressions)} tests failed that are not listed:")
        lines += [f"  {test}  # {error}" for test, error in sorted(verdict.regressions.items())]
    if verdict.fixed:
        lines.append(f"\n{len(verdict.fixed)} listed tests pass now; delete their lines:")
        lines += [f"  {entry}" for entry in verdict.fixed]
    if verdict.gone:
        lines.append(f"\n{len(verdict.gone)} listed tests do not exist; delete their lines:")
        lines += [f"  {entry}" for entry in verdict.gone]
    return "\n".join(lines) or "\nthe failures are exactly the listed ones"
