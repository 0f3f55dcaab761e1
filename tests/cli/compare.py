"""Programs written for torch.compile, under plain Python and under `stator run`, side by side.

    python -m tests.cli.compare [--record] [NAME ...]

Standard output and exit status must be the same. Where torch.compile fails, they must be those of
the program with compilation switched off. `--record` writes what is expected to tests/cli/recorded,
for the tests that run in CI. Each run begins with an empty cache of Inductor's, so that times can
be compared, and with stator's modules as bytecode, which an installed package has; next to each is
the time of the processor, which depends less on other programs.
"""

import argparse
import compileall
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
RECORDED: Final = HERE / "recorded"
LIMIT_SECONDS: Final = 280
# `make programs` runs all of them, CI those that are quick and unlike other tests.
QUICK: Final = ("backend", "dynamic", "in_place", "settings", "training")

# torch.compile fails here (2.13), and what to look for in its standard error.
FAILS_THERE: Final = {
    "lightning_module": "InternalTorchDynamoError",
    "serving": "Cannot generate resume function for generator, coroutine",
}


def names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


@dataclass(frozen=True)
class Outcome:
    """What a program did."""

    status: int
    output: str
    errors: str
    seconds: float
    processor: float
    """Seconds, of the process and those that it has started."""

    def recorded(self) -> str:
        """What is compared, as text."""
        return f"{self.output}exit status {self.status}\n"


def run(arguments: Sequence[str], folder: Path | None = None, **variables: str) -> Outcome:
    """A Python process, with the sources of this repository."""
    source = os.pathsep.join([str(HERE.parents[1] / "src"), *_path()])
    start, used = time.monotonic(), _processor()
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        cwd=folder or PROGRAMS,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", **variables},
    )
    seconds, used = time.monotonic() - start, _processor() - used
    return Outcome(done.returncode, done.stdout, done.stderr, seconds, used)


def _processor() -> float:
    """What the processes that have ended have used."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def _path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def under_torch(name: str, **variables: str) -> Outcome:
    return run([f"{name}.py"], None, **variables)


def expected(name: str, theirs: Outcome) -> Outcome:
    """What the program does: under torch.compile, or as it is where that fails."""
    if name not in FAILS_THERE:
        return theirs
    assert theirs.status and FAILS_THERE[name] in theirs.errors, theirs.errors[-2000:]
    return run([f"{name}.py"], TORCH_COMPILE_DISABLE="1")


def under_stator(name: str, *options: str, **variables: str) -> Outcome:
    return run(["-m", "stator", "run", *options, f"{name}.py"], None, **variables)


def numbers(summary: str) -> dict[str, str]:
    """The rows of a summary: name and first word."""
    return {
        name.strip(): value
        for name, value in re.findall(r"^  ([a-z][a-z ]{1,13}) +(\S+)", summary, re.MULTILINE)
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args(arguments)
    different = 0
    compileall.compile_dir(HERE.parents[1] / "src", quiet=1)
    for name in given.names or names():
        with tempfile.TemporaryDirectory() as cache:
            theirs = under_torch(name, TORCHINDUCTOR_CACHE_DIR=cache)
        wanted = expected(name, theirs).recorded()
        if given.record:
            (RECORDED / f"{name}.txt").write_text(wanted)
        with tempfile.TemporaryDirectory() as cache:
            ours = under_stator(name, TORCHINDUCTOR_CACHE_DIR=cache)
        same = ours.recorded() == wanted
        different += not same
        told = numbers(ours.errors)
        counts = ", ".join(f"{told.get(row, '?')} {row}" for row in ("graphs", "graph breaks"))
        failed = " (fails)" if name in FAILS_THERE else ""
        times = ", ".join(
            f"{each.seconds:5.1f} s ({each.processor:5.1f}) {engine}"
            for engine, each in ((f"torch.compile{failed}", theirs), ("stator", ours))
        )
        print(f"{name:20} {'same' if same else 'DIFFERENT':10} {times}; {counts}", flush=True)
        if not same:
            print(f"--- expected\n{wanted}--- stator\n{ours.recorded()}")
            print(ours.errors)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
