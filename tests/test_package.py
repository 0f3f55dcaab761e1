"""What is shipped: the sdist has everything, the wheel has no sources of C."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from stator.cli.doctor import TESTED

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "docs", "examples", "tests", "benchmarks", "tools", "skills")
MADE = ("__pycache__", ".pyc", ".so", ".o")

pytest.importorskip("setuptools", minversion="77")


def tracked() -> set[str]:
    """The files of the repository, if this is one; else those that are here."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0 and done.stdout:
        return set(done.stdout.splitlines())
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if not _is_made(str(path))}


def _is_made(name: str) -> bool:
    return "__pycache__" in name or name.endswith(MADE)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, without what was built in it."""
    target = tmp_path_factory.mktemp("package") / "stator"
    for name in tracked():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
    return target


def called(folder: Path, call: str) -> str:
    """A function of setuptools, which leaves something in the folder `dist`."""
    program = f"from setuptools import build_meta; print(); print(build_meta.{call}, end='')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(copy: Path) -> set[str]:
    """What is in the sdist, without the folder's own name."""
    name = called(copy, "build_sdist('dist')")
    with tarfile.open(copy / "dist" / name) as file:
        return {each.name.partition("/")[2] for each in file if each.isfile()}


def test_the_sdist_is_the_repository(sdist: set[str]) -> None:
    expected = {name for name in tracked() if name.partition("/")[0] in FOLDERS}
    expected |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"}
    expected |= {"pyproject.toml"}
    assert not expected - sdist
    assert not [name for name in sdist if _is_made(name)]


def test_the_wheel_has_no_sources_of_c(copy: Path, tmp_path: Path) -> None:
    """Without compiling: what setuptools would copy."""
    program = "from setuptools import setup; setup()"
    arguments = ["-c", program, "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run([sys.executable, *arguments], cwd=copy, check=True, capture_output=True)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    check_wheel(found)


def check_wheel(found: set[str]) -> None:
    kinds = {Path(name).suffix for name in found}
    assert not kinds & {".c", ".h"}
    sources = {name.removeprefix("src/") for name in tracked() if name.startswith("src/stator/")}
    assert {name for name in sources if not name.endswith((".c", ".h"))} <= found
    assert {
        "stator/py.typed",
        "stator/_native/_core.pyi",
        "stator/report/assets/page.html",
    } <= found
    assert all(name.startswith("stator") for name in found)


def test_metadata(copy: Path, tmp_path: Path) -> None:
    name = called(copy, f"prepare_metadata_for_build_wheel({str(tmp_path)!r})")
    told = Parser().parsestr((tmp_path / name / "METADATA").read_text())
    urls = dict(each.split(", ") for each in told.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= urls.keys()
    oldest, newest = (".".join(map(str, version)) for version in TESTED)
    after = f"{TESTED[1][0]}.{TESTED[1][1] + 1}"
    assert f'torch<{after},>={oldest}; extra == "torch"' in told.get_all("Requires-Dist", [])
    page = (ROOT / "docs" / "getting_started.md").read_text()
    assert f"torch {oldest} to {newest}" in page


@pytest.mark.skipif(os.environ.get("STATOR_PACKAGE") != "all", reason="it compiles: make package")
def test_a_real_wheel(copy: Path) -> None:
    name = called(copy, "build_wheel('dist')")
    with zipfile.ZipFile(copy / "dist" / name) as file:
        found = {each for each in file.namelist() if ".dist-info/" not in each}
    check_wheel(found)
    assert [
        each for each in found if each.startswith("stator/_native/_core") and each.endswith(".so")
    ]
