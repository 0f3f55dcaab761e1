"""Runs all tests in two processes, one for each core of a small machine.

    python tools/test.py [arguments of pytest …]

The tests don't depend on each other; the two halves take about as long as each other. The output of
a half is shown when it has ended; the exit status is that of the first half that failed.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1] / "tests"
# The folders of one half; everything else, also what is added later, is in the other.
FIRST: Final = (
    "breaks",
    "native",
    "evaluator",
    "emit",
    "dynamic",
    "unknown",
    "recompiles",
    "graph",
    "api",
    "skills",
    "site",
)


def halves() -> list[list[str]]:
    """The paths for each process."""
    first = [str(TESTS / name) for name in FIRST if (TESTS / name).is_dir()]
    found = (path for path in sorted(TESTS.iterdir()) if path.name not in FIRST)
    second = [
        str(path)
        for path in found
        if (path.is_dir() and any(path.glob("test_*.py"))) or path.name.startswith("test_")
    ]
    return [first, second]


def main(arguments: Sequence[str]) -> int:
    start = time.monotonic()
    status = 0
    with contextlib.ExitStack() as files:
        running = []
        for paths in halves():
            output = files.enter_context(tempfile.TemporaryFile("w+"))
            command = [sys.executable, "-m", "pytest", *arguments, *paths]
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            running.append((process, output))
        for number, (process, output) in enumerate(running, 1):
            process.wait()
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout)
            seconds = time.monotonic() - start
            print(f"half {number}: exit status {process.returncode}, after {seconds:.0f} s")
            sys.stdout.flush()
            status = status or process.returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
