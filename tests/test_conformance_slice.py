"""A slice of CPython's own test suite through the evaluator, against the known failures."""

import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import results
from tests.conformance.modules import exists

ROOT: Final = Path(__file__).parents[1]
AT_LEAST: Final = 1500


@pytest.mark.skipif(not exists("test.support"), reason="this Python comes without its test suite")
def test_slice(tmp_path: Path) -> None:
    version = ".".join(platform.python_version_tuple()[:2])
    known = ROOT / "tests" / "conformance" / "known" / f"evaluated-{version}.txt"
    out = tmp_path / "slice.json"
    command = [sys.executable, "-m", "tests.conformance", "--slice"]
    command += ["--engine", "stator.testing:evaluated"]
    command += ["--known", str(known), "--out", str(out), "--logs", str(tmp_path / "logs")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = results.overall(results.read(out))
    assert results.total(counts) >= AT_LEAST, run.stdout
