"""Who runs what: one process per module, and workers below it that may die.

The main process loads the engine once and forks a process per module, which imports it. That one
forks a worker for the native run and workers for the compiled run. A worker that dies or hangs
costs one test: that test is recorded ('crash' or 'timeout') and a fresh worker takes the rest.
"""

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.engines import Eager, Engine
from tests.conformance.modules import resolve
from tests.conformance.processes import fork, how_it_ended
from tests.conformance.results import ModuleRun, Outcome
from tests.conformance.worker import WALL_FACTOR, Case, collect, work

# The native run goes through the same wrapper as the compiled one, so that a test which only
# notices the wrapper (it looks at its caller's frame, say) is excluded.
NATIVE = Engine("eager", Eager())
_GRACE = 12.0  # seconds a silent worker gets beyond its own wall-clock limit


@dataclass(frozen=True)
class Settings:
    """What applies to every module of a run."""

    logs: Path
    timeout: float = 20.0
    memory: int = 16 << 30
    contains: str = ""

    @property
    def patience(self) -> float:
        return WALL_FACTOR * self.timeout + _GRACE


@dataclass
class Progress:
    """What has been heard from one worker."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    current: str | None = None
    fixture: str | None = None
    done: bool = False

    def hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:  # a test that writes into every file descriptor it finds
            return
        match message["ev"]:
            case "start":
                self.current = message["id"]
            case "end":
                self.outcomes[message["id"]] = Outcome(
                    status=message["status"],
                    t=message["t"],
                    error=message["error"],
                    detail=message["detail"],
                )
                self.current = None
            case "fixture":
                self.fixture = message["error"]
            case "done":
                self.done = True


def run_module(
    name: str, engine: Engine, settings: Settings, only: frozenset[str] | None = None
) -> ModuleRun:
    """Body of the per-module process: import it, run it natively, run what passed compiled."""
    dotted = resolve(name)
    if dotted is None:
        return ModuleRun(tests={}, skipped="not in this Python")
    sys.setrecursionlimit(1000)
    log = settings.logs / f"{name}.log"
    log.unlink(missing_ok=True)
    _redirect_output(log)
    folder = tempfile.mkdtemp(prefix="conformance_")
    os.chdir(folder)
    try:
        warnings.simplefilter("ignore")
        support: Any = importlib.import_module("test.support")
        support.use_resources = []
        support.verbose = 0
        cases = [
            case
            for case in collect(importlib.import_module(dotted))
            if (only is None or case.id in only) and settings.contains in case.id
        ]
        return _run_twice(cases, engine, settings, log)
    except unittest.SkipTest as reason:
        return ModuleRun(tests={}, skipped=str(reason))
    except BaseException as error:
        traceback.print_exc()
        return ModuleRun(tests={}, import_error=f"{type(error).__name__}: {error}")
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


def _run_twice(cases: Sequence[Case], engine: Engine, settings: Settings, log: Path) -> ModuleRun:
    began = time.monotonic()
    native = _run_phase(cases, NATIVE, settings, log)
    between = time.monotonic()
    good = [case for case in cases if native[case.id]["status"] == "pass"]
    compiled = _run_phase(good, engine, settings, log)
    ended = time.monotonic()
    tests = {}
    for case in cases:
        if case.id in compiled:
            tests[case.id] = _counted(compiled[case.id])
        else:
            outcome = native[case.id]
            reason = f"native {outcome['status']}: {outcome.get('error')}"
            tests[case.id] = Outcome(status="excluded", error=reason)
    return ModuleRun(
        tests=tests, native_s=round(between - began, 1), compiled_s=round(ended - between, 1)
    )


def _counted(outcome: Outcome) -> Outcome:
    """A compiled outcome as it enters the results: the test passed natively, so a skip fails."""
    status = "fail" if outcome["status"] in ("skip", "xfail") else outcome["status"]
    counted = Outcome(status=status, t=outcome.get("t"))
    if status != "pass":
        counted["error"] = outcome.get("error")
        if detail := outcome.get("detail"):
            counted["detail"] = detail
    return counted


def _run_phase(
    cases: Sequence[Case], engine: Engine, settings: Settings, log: Path
) -> dict[str, Outcome]:
    """Run the cases in as many workers as it takes; every case gets an outcome."""
    outcomes: dict[str, Outcome] = {}
    todo = list(cases)
    while todo:
        progress = _run_worker(todo, engine, settings, log)
        outcomes |= progress.outcomes
        before = len(todo)
        todo = [case for case in todo if case.id not in outcomes]
        if progress.done or len(todo) == before:  # what is left was never started
            reason = f"not run: {progress.fixture or 'class/module fixture'}"
            outcomes |= {case.id: Outcome(status="fail", error=reason) for case in todo}
            break
    return outcomes


def _run_worker(cases: Sequence[Case], engine: Engine, settings: Settings, log: Path) -> Progress:
    """Fork a worker and listen to it until it is done, dies or hangs."""
    readable, writable = os.pipe()

    def body() -> None:
        os.close(readable)
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _redirect_output(log)
        work(writable, cases, engine, settings.timeout, settings.memory)

    pid = fork(body)
    os.close(writable)
    progress = Progress()
    hung = _listen(readable, pid, progress, settings.patience)
    os.close(readable)
    status = _end(pid, grace=0.0 if hung else _GRACE)
    if progress.current is not None:
        progress.outcomes[progress.current] = (
            Outcome(status="timeout", error="hung: killed from outside", t=settings.patience)
            if hung
            else Outcome(status="crash", error=f"worker died: {how_it_ended(status)}")
        )
    return progress


def _listen(fd: int, pid: int, progress: Progress, patience: float) -> bool:
    """Hear a worker out; True if it fell silent for too long."""
    rest = b""
    heard = time.monotonic()
    while not progress.done:
        if select.select([fd], [], [], 1.0)[0]:
            chunk = os.read(fd, 65536)
            if not chunk:
                return False
            heard = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                progress.hear(line)
        elif _exited(pid):  # something it started still holds the pipe
            return False
        elif time.monotonic() - heard > patience:
            return True
    return False


def _exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(pid: int, grace: float) -> int:
    """Let a worker exit, kill what is left of its process group; its wait status."""
    deadline = time.monotonic() + grace
    while not _exited(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _redirect_output(log: Path) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
