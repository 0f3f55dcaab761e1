"""Slices of CPython's own test suite, through the evaluator and compiled, with known failures."""

import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import results
from tests.conformance.modules import COMPILED_SLICE, exists

ROOT: Final = Path(__file__).parents[1]
AT_LEAST: Final = 1500
COMPILED_AT_LEAST: Final = 1000
NEEDS_TESTS: Final = pytest.mark.skipif(
    not exists("test.test_dict"), reason="this Python comes without its test suite"
)


def known(engine: str) -> Path:
    version = ".".join(platform.python_version_tuple()[:2])
    return ROOT / "tests" / "conformance" / "known" / f"{engine}-{version}.txt"


def judge(folder: Path, engine: str, listed: Path, modules: list[str], at_least: int) -> None:
    """The modules, through an engine: exactly the listed tests may fail."""
    out = folder / "slice.json"
    command = [sys.executable, "-m", "tests.conformance", *modules, "--engine", engine]
    command += ["--known", str(listed), "--out", str(out), "--logs", str(folder / "logs")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = results.overall(results.read(out))
    assert results.total(counts) >= at_least, run.stdout


@NEEDS_TESTS
def test_slice(tmp_path: Path) -> None:
    judge(tmp_path, "stator.testing:evaluated", known("evaluated"), ["--slice"], AT_LEAST)


@NEEDS_TESTS
@pytest.mark.skipif(not known("compiled").exists(), reason="no list for this Python")
def test_compiled_slice(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    modules = list(COMPILED_SLICE)
    judge(tmp_path, "stator.testing:conformance", known("compiled"), modules, COMPILED_AT_LEAST)
