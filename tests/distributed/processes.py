"""Real processes for tests: as many ranks as wanted, a time limit, and nothing left behind.

In: a module of checks (`python -m tests.distributed.worker`), a number of ranks. Out: what became
of each check on each rank. Each rank is a process group of its own, which is killed as a whole when
the time is over, or the test is.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass
class Rank:
    """What became of one process."""

    status: int | None
    """None if it had to be killed since the time was over."""
    output: str
    checks: dict[str, str]
    """By name: `ok`, or a traceback."""


def free_port() -> int:
    """A port nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def run(command: list[str], ranks: int = 2, limit: float = 60, **settings: str) -> list[Rank]:
    """Runs a command as so many ranks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        common = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
            "STATOR_STRICT": "1",
            "RESULTS": name,
            "LIMIT": str(limit),
            **settings,
        }
        started = []
        try:
            for rank in range(ranks):
                with (folder / f"output{rank}").open("w") as output:
                    process = subprocess.Popen(
                        [sys.executable, *command],
                        env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                started.append(process)
            end = time.monotonic() + limit
            while time.monotonic() < end and any(each.poll() is None for each in started):
                time.sleep(0.05)
            status = [each.poll() for each in started]
        finally:
            for each in started:
                _kill(each)
        return [_rank(folder, rank, status[rank]) for rank in range(ranks)]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _rank(folder: Path, rank: int, status: int | None) -> Rank:
    results = folder / f"checks{rank}.json"
    checks = json.loads(results.read_text()) if results.exists() else {}
    return Rank(status, (folder / f"output{rank}").read_text(errors="replace"), checks)


def checks(module: str, ranks: int = 2, limit: float = 60, **settings: str) -> list[Rank]:
    """Runs all checks of a module."""
    return run(["-m", "tests.distributed.worker", module], ranks, limit, **settings)


def judge(found: list[Rank], names: list[str]) -> None:
    """Each check must have passed on each rank."""
    for number, rank in enumerate(found):
        told = f"rank {number}, status {rank.status}\n{rank.output[-6000:]}"
        for name in names:
            assert rank.checks.get(name) == "ok", f"{name}: {rank.checks.get(name)}\n{told}"
        assert rank.status == 0, told
