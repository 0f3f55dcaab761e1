"""Tables and totals of runs, as plain text."""

import collections
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from benchmarks.zoo.cases import NOTES
from benchmarks.zoo.measure import Result
from benchmarks.zoo.results import MODES, Run, parts

MEASURED: Final = ("full_graph", "graph_break", "mismatch", "no_graph")
BROKEN: Final = ("error", "crash", "timeout", "harness_error")
CODES: Final = {
    "full_graph": "ok",
    "graph_break": "GB",
    "mismatch": "MISMATCH",
    "no_graph": "NONE",
}
GROUPS: Final = ("clean", "breaks-in-corpus", "local")
LEAST_S: Final = 1e-4  # below the clock's noise


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def cell(part: Result | None) -> str:
    """One mode of a case in a word: "GB/fg" breaks by default but works with fullgraph=True."""
    if not part:
        return "-"
    status = part["status"]
    if status not in MEASURED:
        return str(status)
    code = CODES[status]
    if status == "graph_break" and part.get("fullgraph"):
        code = "GB/fg"
    stats = part.get("stats") or {}
    text = f"{code} g={part['graphs']} c={stats.get('graph_breaks', '?')}"
    if stats.get("skips"):
        text += f"+{stats['skips']}"
    covered = part.get("coverage")
    return text + (f" cov={covered:.0%}" if covered is not None and covered < 0.995 else "")


def problem(result: Result) -> str:
    """The first error of a case, for the line printed while it runs."""
    for mode, part in parts(result):
        if text := part.get("error") or part.get("mismatch"):
            return f"{mode}: {text}"
    return ""


def group(result: Result) -> str:
    tag = result["tag"]
    return "clean" if tag == "clean" else "local" if tag.startswith("local") else GROUPS[1]


def mode_totals(results: list[Result], mode: str) -> dict[str, Any]:
    chosen = [result for result in results if result.get(mode)]
    found: list[Result] = [result[mode] for result in chosen]
    measured = [part for part in found if part["status"] in MEASURED and "trace_cpu_s" in part]
    covered = [part["coverage"] for part in found if part.get("coverage") is not None]
    seconds = [max(part["trace_cpu_s"], LEAST_S) for part in measured]
    cpu = geometric_mean(seconds)
    by_group = {}
    for name in GROUPS:
        members = [result[mode]["status"] for result in chosen if group(result) == name]
        by_group[name] = f"{members.count('full_graph')}/{len(members)}"

    def count(key: str) -> int:
        return sum((part.get("stats") or {}).get(key, 0) or 0 for part in found)

    return {
        "models": len(found),
        "status": dict(collections.Counter(part["status"] for part in found)),
        "full_graph": sum(part["status"] == "full_graph" for part in found),
        "full_graph_by_group": by_group,
        "fullgraph_true_ok": sum(bool(part.get("fullgraph")) for part in found),
        "graphs": sum(part.get("graphs", 0) for part in found),
        "breaks_graphs_minus_1": sum(
            part.get("breaks", 0) for part in found if part["status"] != "full_graph"
        ),
        "breaks_engine_counter": count("graph_breaks"),
        "frames_skipped": count("skips"),
        "errors": sum(part["status"] in BROKEN for part in found),
        "second_call_errors": sum("second_error" in part for part in found),
        "eager_errors": sum(part["status"] == "eager_error" for part in found),
        "mismatches": sum(
            bool(part.get("mismatch") or part.get("fullgraph_mismatch")) for part in found
        ),
        "nondeterministic": sum(part.get("deterministic") is False for part in found),
        "recompiles_2nd_call": sum(part.get("recompiles_2nd", 0) for part in found),
        "mean_coverage": round(sum(covered) / len(covered), 4) if covered else None,
        "geomean_trace_cpu_s": None if cpu is None else round(cpu, 4),
        "sum_trace_cpu_s": round(sum(seconds), 2),
    }


def totals(results: list[Result]) -> dict[str, dict[str, Any]]:
    found = {mode: mode_totals(results, mode) for mode in MODES}
    return {mode: each for mode, each in found.items() if each["models"]}


def summary(results: list[Result]) -> Iterator[str]:
    """The totals as lines, one column per mode."""
    found = totals(results)
    yield f"{'':28}" + "".join(f"{mode:>12}" for mode in found)
    keys = next(iter(found.values()), {})
    for key in keys:
        if not isinstance(keys[key], dict):
            yield f"{key:28}" + "".join(f"{shown(each[key]):>12}" for each in found.values())
    for name in GROUPS:
        row = "".join(f"{each['full_graph_by_group'][name]:>12}" for each in found.values())
        yield f"{f'full_graph {name}':28}" + row


def shown(value: Any) -> str:
    return "-" if value is None else str(value)


def break_reasons(results: list[Result], limit: int = 25) -> list[dict[str, Any]]:
    """The engine's own reasons, most frequent first: without and then with what they name."""
    counts: collections.Counter[str] = collections.Counter()
    names: dict[str, set[str]] = collections.defaultdict(set)
    for result in results:
        for _, part in parts(result):
            stats = part.get("stats") or {}
            for key in ("reasons", "skip_reasons"):
                for reason, times in stats.get(key, {}).items():
                    for text in {reason, bare(reason)}:
                        counts[text] += times
                        names[text].add(result["name"])
    rows: list[dict[str, Any]] = [
        {"reason": text, "count": times, "models": len(names[text]), "names": sorted(names[text])}
        for text, times in counts.most_common()
    ]
    short = [row for row in rows if row["reason"] == bare(row["reason"])]
    named = [row for row in rows if row["reason"] != bare(row["reason"])]
    return short[:limit] + named[: 2 * limit]


def bare(reason: str) -> str:
    """A reason without the operator or function it names in brackets."""
    skipped = 2 if reason.startswith("[") else 1
    return " [".join(reason.split(" [")[:skipped])


def why_failed(part: Result) -> str | None:
    """The first line of what went wrong in a mode; None if nothing did."""
    status = part["status"]
    if status in ("full_graph", "ok"):
        return None
    if status == "mismatch":
        return "values differ from eager"
    text = part.get("error") or part.get("fullgraph_error")
    if text is None:
        reasons = (part.get("stats") or {}).get("reasons") or {}
        text = next(iter(reasons), "graph break with fullgraph=False only")
    first = text.split(" | ")[0]
    first = re.sub(r"0x[0-9a-f]+", "0x…", first)  # the same reason in every process
    return f"{status}: {first}"


def failures(results: list[Result]) -> Iterator[str]:
    """Lines: each reason with the cases it stopped, most cases first."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    noted: set[str] = set()
    for result in results:
        name = result["name"]
        for mode, part in parts(result):
            if reason := why_failed(part):
                known = part["status"] == "mismatch" and name in NOTES
                noted |= {name} if known else set()
                found[reason].append(name + f" ({mode})" * (mode != "eval") + " *" * known)
    for reason, names in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{len(names):4}  {reason}"
        yield f"      {', '.join(names)}"
    for name in sorted(noted):
        yield f"   *  {name} with torch 2.13: {NOTES[name]}"


def table(results: list[Result], other: list[Result] | None = None) -> Iterator[str]:
    beside = {result["name"]: result for result in other or ()}
    width = max((len(result["name"]) for result in results), default=0)
    for result in results:
        part = result.get("eval") or {}
        seconds = part.get("trace_cpu_s", part.get("trace_s", math.nan))
        line = (
            f"{result['name']:{width}} {result['tag'][:28]:28} {cell(result.get('eval')):24} "
            f"{cell(result.get('train')):22} {seconds:6.2f}s"
        )
        if peer := beside.get(result["name"]):
            line += f"   | {cell(peer.get('eval')):22} {cell(peer.get('train')):20}"
        yield line


def changes(results: list[Result], other: list[Result]) -> Iterator[str]:
    """Which modes of which cases became a full graph, and which no longer are one."""
    before = {
        (result["name"], mode): part["status"] for result in other for mode, part in parts(result)
    }
    gained: list[str] = []
    lost: list[str] = []
    for result in results:
        for mode, part in parts(result):
            old = before.get((result["name"], mode))
            if old is not None and (old == "full_graph") != (part["status"] == "full_graph"):
                (lost if old == "full_graph" else gained).append(f"{result['name']} ({mode})")
    yield f"full graph only here  {len(gained):4}  {', '.join(gained)}"
    yield f"full graph only there {len(lost):4}  {', '.join(lost)}"


def ratios(peer: Run, ours: Run) -> Iterator[str]:
    """Tracing CPU time of two runs of the same cases; below 1, ``ours`` is faster."""
    beside = {result["name"]: result for result in peer["results"]}
    yield f"tracing CPU time, {ours['engine']} / {peer['engine']}"
    both_full, measured = [], []
    for result in ours["results"]:
        for mode, part in parts(result):
            theirs = (beside.get(result["name"]) or {}).get(mode) or {}
            if not all("trace_cpu_s" in each for each in (part, theirs)):
                continue
            a = max(theirs["trace_cpu_s"], LEAST_S)
            b = max(part["trace_cpu_s"], LEAST_S)
            measured.append(b / a)
            if part["status"] == theirs["status"] == "full_graph":
                both_full.append(b / a)
            yield f"{result['name']:42} {mode:5} {a:8.3f} s {b:8.3f} s {b / a:8.3f}"
    for label, values in (("both full graphs", both_full), ("all that ran", measured)):
        mean = geometric_mean(values)
        shown = "-" if mean is None else f"{mean:.3f}"
        yield f"{f'geometric mean, {label} ({len(values)})':68} {shown:>8}"
