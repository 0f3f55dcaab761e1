"""The workflows: each has an owner, and calls make targets that exist."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from stator.torchlib.supported import FIRST, LAST

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".github" / "workflows"
WORKFLOWS: Final = sorted(FOLDER.glob("*.yml"))
SUBJECTS: Final = {"lint", "pythons", "torches", "sanitizers", "docs", "wheels"}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="an sdist has no workflows")


def owners(path: str) -> list[str]:
    """Who is asked about a file: those of the last line that fits, as on GitHub."""
    found: list[str] = []
    for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines():
        pattern, *names = line.split("#")[0].split() or [""]
        if pattern == "*" or fnmatch(f"/{path}", pattern) or f"/{path}".startswith(pattern or "#"):
            found = names
    return found


def targets() -> set[str]:
    """What the Makefile can make."""
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def called(text: str) -> set[str]:
    """The targets that a workflow calls; one from the matrix stands for all of its list."""
    found: set[str] = set()
    for name in re.findall(r"\bmake ([a-z-]+|\$\{\{ matrix\.\w+ \}\})", text):
        if name.startswith("$"):
            key = name.removeprefix("${{ matrix.").removesuffix(" }}")
            listed = re.search(rf"{key}: \[([^\]]*)\]", text)
            assert listed, f"no list of {key}"
            found.update(each.strip() for each in listed[1].split(","))
        else:
            found.add(name)
    return found


def test_there_is_one_for_each_subject() -> None:
    assert {path.stem for path in WORKFLOWS} >= SUBJECTS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_it_has_an_owner_of_its_own(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    assert owners(name)
    assert f"/{name} " in (ROOT / ".github" / "CODEOWNERS").read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_it_calls_targets_that_exist(path: Path) -> None:
    wanted = called(path.read_text())
    assert wanted
    assert wanted <= targets()


def test_owners_are_of_files_that_exist() -> None:
    for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines():
        pattern = line.split("#")[0].split()
        if pattern and pattern[0] != "*":
            assert (ROOT / pattern[0].strip("/")).exists(), pattern[0]


def test_the_versions_are_those_that_are_supported() -> None:
    text = (FOLDER / "torches.yml").read_text()
    listed = re.search(r"torch: \[([^\]]*)\]", text)
    assert listed
    found = [tuple(map(int, each.strip(' "').split(".")[:2])) for each in listed[1].split(",")]
    assert found == [(2, minor) for minor in range(FIRST[1], LAST[1] + 1)]


def test_make_knows_its_targets() -> None:
    """What is found by reading is what make finds."""
    for name in ("test", "lint"):
        ran = subprocess.run(["make", "-n", name], cwd=ROOT, capture_output=True, check=False)
        assert ran.returncode == 0 and name in targets()
