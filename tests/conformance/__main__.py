"""The command line: which modules, which engine, and when the run counts as failed."""

import argparse
import gc
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance import engines, known, modules, report
from tests.conformance.engines import Engine
from tests.conformance.probes import probe
from tests.conformance.processes import in_children
from tests.conformance.results import ModuleRun, Results, overall, read, total, write
from tests.conformance.supervisor import Settings, run_module

Job = tuple[str, Any]


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Run CPython's own unittest modules through a function compiler, strictly.",
    )
    add = parser.add_argument
    add(
        "--engine",
        default="stator.testing:evaluated",
        metavar="NAME",
        help=f"{', '.join(engines.BUILT_IN)} or MODULE:ATTR (default: %(default)s)",
    )
    add("--out", type=Path, metavar="JSON", help="write the results here")
    add(
        "--timeout",
        type=float,
        default=20.0,
        metavar="S",
        help="CPU seconds per test (default: %(default)g)",
    )
    add("--mem", type=int, default=16, metavar="GIB", help="address space per worker")
    add("--jobs", type=int, default=2, metavar="N", help="modules at a time (default: %(default)d)")
    add(
        "--budget",
        type=float,
        default=0,
        metavar="S",
        help="stop starting modules after this many seconds",
    )
    add("-k", default="", metavar="TEXT", help="only tests whose id contains this")
    add("--logs", type=Path, metavar="FOLDER", help="what the tests print, a file per module")
    add("--resume", action="store_true", help="keep the modules already in --out")
    add("--redo", metavar="STATUS", help="run again only the tests with this status in --out")
    add("--report", type=Path, metavar="JSON", help="only print the report of these results")
    add(
        "--known", type=Path, metavar="LIST", help="fail unless exactly the tests in this list fail"
    )
    add(
        "--write-known",
        type=Path,
        metavar="LIST",
        help="bring this list up to date with the run; reasons are kept",
    )
    add("--min-rate", type=float, default=0, metavar="PCT", help="fail below this pass rate")
    add("--slice", action="store_true", help="run the fast slice of modules used by make test")
    add("--extended", action="store_true", help="run further modules, not in the default list")
    add("modules", nargs="*", help="test modules (default: the whole list)")
    options = parser.parse_args(argv)
    if (options.resume or options.redo) and not options.out:
        parser.error("--resume and --redo need --out")
    for name in options.modules:
        if name not in modules.DEFAULT and modules.resolve(name) is None:
            parser.error(f"this Python has no test module {name!r}")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


def default_logs() -> Path:
    return Path(tempfile.gettempdir()) / f"stator-conformance-{platform.python_version()}"


def blank(engine: Engine, timeout: float) -> Results:
    torch = sys.modules.get("torch")
    probes = dict(in_children(1, [("probes", lambda: probe(engine))]))["probes"]
    return Results(
        engine=engine.name,
        meta={
            "python": platform.python_version(),
            "timeout_s": timeout,
            "torch": getattr(torch, "__version__", None),
            "flags": engine.applied,
            "verified": engine.verified,
            "canaries": probes,
            "notes": {},
            "times": {},
            "wall_s": 0.0,
        },
        modules={},
    )


class Run:
    """One invocation: chooses modules, runs them, keeps the results file current."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.engine = engines.load(options.engine)
        self.engine.setup()
        logs = (options.logs or default_logs()).absolute()
        logs.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(logs, options.timeout, options.mem << 30, options.k)
        self.results = blank(self.engine, options.timeout)
        if (options.resume or options.redo) and options.out.exists():
            old = read(options.out)
            self.results["modules"] = old["modules"]
            for key in ("notes", "times", "wall_s"):
                self.results["meta"][key] = old["meta"].get(key, self.results["meta"][key])
        self.spent: float = self.results["meta"]["wall_s"]
        self.began = time.monotonic()

    @property
    def names(self) -> tuple[str, ...]:
        if self.options.modules:
            return tuple(self.options.modules)
        if self.options.extended:
            return modules.EXTENDED
        return modules.SLICE if self.options.slice else modules.DEFAULT

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def jobs(self) -> Iterator[Job]:
        """What is still to be run; asked for the next one when a process is free."""
        done = self.results["modules"]
        for name in self.names:
            only = None
            if self.options.redo:
                status = self.options.redo
                tests = done.get(name, {}).items()
                only = frozenset(test for test, outcome in tests if outcome["status"] == status)
                if not only:
                    continue
            elif self.options.resume and done.get(name):
                continue
            if self.options.budget and self.elapsed() > self.options.budget:
                self.results["meta"]["notes"][name] = "not run: out of budget"
                continue
            yield (
                name,
                lambda name=name, only=only: run_module(name, self.engine, self.settings, only),
            )

    def execute(self) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        gc.collect()
        gc.freeze()
        print(report.HEAD, flush=True)
        for name, value in in_children(self.options.jobs, self.jobs()):
            run: ModuleRun = value or ModuleRun(tests={}, import_error="module process died")
            self.record(name, run)
            print(report.module_row(name, run), flush=True)
            if self.options.out:
                write(self.results, self.options.out)
        order = {name: place for place, name in enumerate(self.names)}
        self.results["modules"] = dict(
            sorted(self.results["modules"].items(), key=lambda item: order.get(item[0], -1))
        )
        if self.options.out:
            write(self.results, self.options.out)

    def record(self, name: str, run: ModuleRun) -> None:
        meta = self.results["meta"]
        self.results["modules"].setdefault(name, {})
        if self.options.redo:
            self.results["modules"][name].update(run["tests"])
        else:
            self.results["modules"][name] = run["tests"]
            meta["times"][name] = [run.get("native_s"), run.get("compiled_s")]
        meta["notes"].pop(name, None)
        if "import_error" in run:
            meta["notes"][name] = f"ERROR {run['import_error']}"
        elif "skipped" in run:
            meta["notes"][name] = f"skipped: {run['skipped']}"
        meta["wall_s"] = round(self.spent + self.elapsed(), 1)

    def judge(self) -> bool:
        """Print the report; True if the run is as it should be."""
        options, meta = self.options, self.results["meta"]
        good = True
        if options.write_known:
            path = options.write_known
            listed = known.read(path) if path.exists() else {}
            entries = known.updated(self.results, listed, whole_modules=not options.k)
            known.write(path, entries)
            print(f"\n{path}: {len(entries)} known failures")
        if options.known:
            listed = known.read(options.known)
            verdict = known.compare(self.results, listed, whole_modules=not options.k)
            print(report.against_list(verdict))
            good = bool(verdict)
        counts = overall(self.results)
        rate = 100 * counts["pass"] / max(total(counts), 1)
        if rate < options.min_rate:
            print(f"\npass rate {rate:.2f} % is below {options.min_rate:g} %")
            good = False
        if options.known or options.min_rate:
            broken = [name for name, note in meta["notes"].items() if note.startswith("ERROR")]
            if broken:
                print(f"\nmodules that could not be run: {', '.join(broken)}")
            good = good and not broken and not report.bad_probes(self.results)
        return good


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    if options.report:
        print(report.full(read(options.report)))
        return 0
    run = Run(options)
    run.execute()
    print(f"\nengine {options.engine}  wall {run.spent + run.elapsed():.0f} s\n")
    print(report.full(run.results))
    try:
        return 0 if run.judge() else 1
    except known.ListError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
