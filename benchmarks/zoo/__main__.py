"""The zoo's command line; see ``benchmarks.zoo`` and docs/benchmarks.md."""

import argparse
import contextlib
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks.zoo import report
from benchmarks.zoo.case import Entry
from benchmarks.zoo.cases import ZOO
from benchmarks.zoo.engines import PEER
from benchmarks.zoo.measure import Options, Result
from benchmarks.zoo.results import Run, failed_in, load, new_run, save
from benchmarks.zoo.server import Job, Server

DYNAMIC: Final[dict[str, bool | None]] = {"none": None, "true": True, "false": False}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.zoo", description="Graph capture on tiny real models."
    )
    add = made.add_argument
    add("--engine", default=PEER, help="torch, or package.module:compile (default: %(default)s)")
    add(
        "--engines",
        default="",
        help="several on the same cases, the peer first: torch,stator:compile",
    )
    add("--only", default="", metavar="A,B", help="cases whose name contains one of these")
    add(
        "--family",
        default="",
        metavar="A,B",
        help="hf, hf-decode, pyg, diffusers, lucidrains, torch",
    )
    add(
        "--failed-in",
        default="",
        metavar="FILE",
        help="only what was no full graph in that --out file",
    )
    add("--eval-only", action="store_true", help="no training mode")
    add("--quick", action="store_true", help="first compiled call only: for timing")
    add("--check", action="store_true", help="build and run eagerly, compile nothing")
    add("--no-coverage", dest="coverage", action="store_false")
    add("--dynamic", default="none", choices=DYNAMIC)
    add("--nested", action="store_true", help="torch: nested_graph_breaks=True")
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="torch: a TorchDynamo setting",
    )
    add("--jobs", type=int, default=1, help="cases at a time; times are only comparable with 1")
    add("--timeout", type=float, default=120.0, metavar="S", help="for one case and engine")
    add("--logs", default="", metavar="FOLDER", help="keep what each case prints")
    add("--out", default="", metavar="FILE", help="results as JSON, written after every case")
    add("--compact", action="store_true", help="in --out, only what --compare needs")
    add("--label", default="", help="a remark for --out")
    add("--compare", default="", metavar="FILE", help="an earlier --out to print alongside")
    add(
        "--show",
        default="",
        metavar="FILE",
        help="print the report of an earlier --out, run nothing",
    )
    add("--list", action="store_true", help="the chosen cases")
    return made


def chosen(only: str, family: str, failed: str, engines: list[str]) -> list[Entry]:
    words = [word for word in only.split(",") if word]
    families = [word for word in family.split(",") if word]
    names = failed_in(failed, engines) if failed else set(ZOO)
    return [
        entry
        for entry in ZOO.values()
        if entry.name in names
        and (not words or any(word in entry.name for word in words))
        and (not families or entry.family in families)
    ]


def print_list(entries: list[Entry]) -> None:
    for entry in entries:
        print(f"{entry.name:45} {entry.family:12} {entry.tag:40} {'train' if entry.train else ''}")
    print(f"{len(entries)} cases, {sum(entry.train for entry in entries)} in training mode too")


class Progress:
    """Collects results as they come, prints a line for each, and saves."""

    def __init__(self, runs: list[Run], count: int, out: str, compact: bool) -> None:
        self.runs, self.out, self.compact = runs, out, compact
        self.left = count * len(runs)
        self.total = self.left
        self.began = time.time()
        self._lock = threading.Lock()

    def add(self, run: Run, result: Result) -> None:
        with self._lock:
            order = list(ZOO)
            run["results"].append(result)
            run["results"].sort(key=lambda each: order.index(each["name"]))
            run["totals"] = report.totals(run["results"])
            run["top_reasons"] = report.break_reasons(run["results"])
            run["wall_s"] = round(time.time() - self.began, 1)
            self.left -= 1
            engine = f"{run['engine']:16} " if len(self.runs) > 1 else ""
            print(
                f"[{self.total - self.left}/{self.total} {run['wall_s']:5.0f}s] "
                f"{engine}{result['name']:42} {report.cell(result.get('eval')):24} "
                f"{report.cell(result.get('train')):22} {report.problem(result)[:150]}",
                flush=True,
            )
            if self.out:
                save(self.out, self.runs, self.compact)


def measure(entries: list[Entry], jobs: list[Job], workers: int, progress: Progress) -> list[str]:
    """Every case with every engine, the engines in turns; returns what to tell the user."""
    todo: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for index, entry in enumerate(entries):
        todo.put((index, entry.name))
    notes: list[str] = []

    def work() -> None:
        servers = [Server(job) for job in jobs]
        pairs = list(zip(servers, progress.runs, strict=True))
        try:
            with contextlib.suppress(queue.Empty):
                while True:
                    index, name = todo.get_nowait()
                    # Each engine is first every other time: a machine that warms up favours none.
                    for server, run in pairs if index % 2 == 0 else reversed(pairs):
                        progress.add(run, server.run(name))
        finally:
            for server in servers:
                server.close()
                notes.extend(server.notes)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(max(workers, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(set(notes))


def print_report(runs: list[Run], other: list[Result] | None) -> None:
    for run in runs:
        results = run["results"]
        print(f"\n==== {run['engine']} {' '.join(run.get('settings') or [])}")
        for line in report.table(results, other):
            print(line)
        print()
        for line in report.summary(results):
            print(line)
        reasons = report.break_reasons(results)
        if reasons:
            print("\nthe engine's own reasons: count, models")
        for row in reasons:
            print(f"{row['count']:5} {row['models']:4}  {row['reason']}")
        print("\nnot a full graph, by reason:")
        for line in report.failures(results):
            print(line)
        if other is not None:
            print("\nagainst the other run:")
            for line in report.changes(results, other):
                print(line)
    for run in runs[1:]:
        print()
        for line in report.ratios(runs[0], run):
            print(line)


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    other = load(options.compare)[0]["results"] if options.compare else None
    if options.show:
        print_report(load(options.show), other)
        return 0
    engines = [spec for spec in options.engines.split(",") if spec] or [options.engine]
    entries = chosen(options.only, options.family, options.failed_in, engines)
    if options.list:
        print_list(entries)
        return 0
    if not entries:
        print("no such case; --list shows them", file=sys.stderr)
        return 2
    if options.logs:
        Path(options.logs).mkdir(parents=True, exist_ok=True)
    wanted = Options(
        eval_only=options.eval_only,
        check=options.check,
        quick=options.quick,
        coverage=options.coverage,
        dynamic=DYNAMIC[options.dynamic],
    )
    jobs = [
        Job(spec, wanted, options.timeout, options.nested, tuple(options.set), options.logs)
        for spec in engines
    ]
    runs = [new_run(spec, options.set if spec == PEER else (), options.label) for spec in engines]
    progress = Progress(runs, len(entries), options.out, options.compact)
    notes = measure(entries, jobs, options.jobs, progress)
    if not options.check:
        print_report(runs, other)
    for note in notes:
        print(note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
