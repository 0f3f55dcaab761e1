"""One process per engine, which forks a child for every case.

Supervisor's side: ``Server(spec, …).run(name)``. It never raises for what an engine does: a child
or a server that crashes or hangs gives a result with status "crash" or "timeout".

Server's side (``python -m benchmarks.zoo.server``): imports the libraries, starts the engine once,
then reads the names of cases and writes their results, one JSON object a line. Children inherit
the warm state, so a case costs its own time only and can't spoil another one.
"""

import argparse
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.zoo.case import Entry
from benchmarks.zoo.cases import ZOO
from benchmarks.zoo.engines import Engine, load
from benchmarks.zoo.measure import (
    Options,
    Result,
    error_line,
    import_libraries,
    measure_all,
    modes,
    warm_up,
)

START_LIMIT_S: Final = 120.0
PR_SET_PDEATHSIG: Final = 1
GRACE_S: Final = 30.0  # for the server to notice a case's time limit itself


@dataclass(frozen=True)
class Job:
    """Everything a server must know; it travels as one JSON argument."""

    engine: str
    options: Options
    timeout_s: float = 120.0
    nested: bool = False
    settings: tuple[str, ...] = ()
    log_folder: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Job":
        fields = json.loads(text)
        fields["options"] = Options(**fields["options"])
        fields["settings"] = tuple(fields["settings"])
        return Job(**fields)


def completed(entry: Entry, job: Job, last: Result | None, status: str, error: str) -> Result:
    """The result of a case whose child said ``last`` and ended: its first missing mode failed."""
    result = dict(last or {"name": entry.name, "family": entry.family, "tag": entry.tag})
    for mode in modes(entry, job.options):
        if mode not in result:
            result[mode] = {"mode": mode, "status": status, "error": error}
            break
    return result


# ---------------------------------------------------------------- the supervisor's side


class Server:
    """A running engine process; started on first use, and again after it died."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.notes: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._refused: str | None = None

    def run(self, name: str) -> Result:
        entry = ZOO[name]
        if self._refused is None and self._process is None:
            self._start()
        if self._refused is not None or self._process is None or self._process.stdin is None:
            return completed(entry, self.job, None, "crash", self._refused or "no server")
        try:
            self._process.stdin.write(f"{name}\n".encode())
            self._process.stdin.flush()
            line = self._read(self.job.timeout_s + GRACE_S)
        except OSError:
            line = None
        if line is not None:
            return dict(json.loads(line))
        return completed(entry, self.job, None, "crash", f"engine process: {self._end()}")

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _start(self) -> None:
        self._pending = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.zoo.server", self.job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that it can be killed with its children
        )
        line = self._read(START_LIMIT_S)
        if line is None:
            # It would fail again for every case: say it once per case without waiting.
            self._refused = f"engine start-up: {self._end()}"
        elif problem := json.loads(line)["problem"]:
            self.notes.append(f"{self.job.engine}: warm-up failed: {problem}")

    def _end(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "not running"
        how = "hangs"
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            how = f"exit status {process.wait(5)}"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return how

    def _read(self, limit_s: float) -> bytes | None:
        """The next line; None at the end of the stream or after the time limit."""
        if self._process is None or self._process.stdout is None:
            return None
        for chunk in chunks(self._process.stdout.fileno(), time.monotonic() + limit_s):
            self._pending += chunk
            if b"\n" in chunk:
                line, _, self._pending = self._pending.partition(b"\n")
                return line
        return None


def chunks(descriptor: int, deadline: float) -> Iterator[bytes]:
    """What can be read until the stream ends or the deadline passes."""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            return
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return
        yield chunk


# ---------------------------------------------------------------- the server's side


def die_with_parent() -> None:
    """Linux: a killed run leaves no processes behind."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Ended(NamedTuple):
    """A child that has ended: the last part it gave, and how it ended."""

    last: Result | None
    status: str  # "timeout", "crash", or "" if it came to its end
    how: str


def in_child(measure: Callable[[], Iterable[Result]], limit_s: float, log: str = "") -> Ended:
    """Fork, measure, collect; the child is killed at the time limit."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent()
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                redirect(log or os.devnull)
                for part in measure():
                    print(json.dumps(part), file=out, flush=True)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    deadline = time.monotonic() + limit_s
    said = b"".join(chunks(reading, deadline))
    os.close(reading)
    late = time.monotonic() >= deadline
    if late:
        os.kill(pid, signal.SIGKILL)
    _, wait_status = os.waitpid(pid, 0)
    lines = [line for line in said.splitlines() if line.endswith(b"}")]
    last = json.loads(lines[-1]) if lines else None
    if late:
        return Ended(last, "timeout", f"{limit_s:.0f} s limit")
    code = os.waitstatus_to_exitcode(wait_status)
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    return Ended(last, "crash" if code else "", how)


def measured(entry: Entry, engine: Engine, job: Job) -> Result:
    """The result of a case, measured in a child."""
    log = ""
    if job.log_folder:
        log = str(Path(job.log_folder, f"{entry.name.replace('/', '_')}.log"))
    ended = in_child(lambda: measure_all(entry, engine, job.options), job.timeout_s, log)
    return completed(entry, job, ended.last, ended.status or "crash", ended.how)


def redirect(path: str) -> None:
    """The process's output goes to a file; its input is empty."""
    log = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def serve(job: Job) -> None:
    die_with_parent()
    # Libraries print; the results have the original standard output for themselves.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        import_libraries()
        engine = load(job.engine, job.nested, job.settings)
        problem = None
        if not job.options.check:
            try:
                warm_up(engine)
            except Exception as error:
                problem = error_line(error)
        print(json.dumps({"problem": problem}), file=out, flush=True)
        for line in sys.stdin:
            result = measured(ZOO[line.strip()], engine, job)
            print(json.dumps(result), file=out, flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="One engine's process; used by the zoo itself.")
    parser.add_argument("job", help="as JSON")
    options: Any = parser.parse_args(argv)
    serve(Job.from_json(options.job))
    return 0


if __name__ == "__main__":
    sys.exit(main())
