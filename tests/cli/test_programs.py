"""Unmodified programs that use torch.compile: under `stator run` they print what they printed.

What torch.compile gives is recorded (`python -m tests.cli.compare --record`); `make programs` runs
all of them, side by side.
"""

import pytest

from tests.cli.compare import QUICK, RECORDED, names, numbers, under_stator
from tests.versions import newest_names

# Functions, graphs, graph breaks and recompiles that the summary must tell.
SUMMARIES = {
    "backend": ("3", "2", "none", "none"),
    "dynamic": ("1", "7", "none", "3"),
    "in_place": ("1", "2", "none", "1"),
    "settings": ("2", "9", "none", "6"),
    "training": ("1", "1", "none", "none"),
}
ROWS = ("functions", "graphs", "graph breaks", "recompiles")


# This one sets a default backend.
MARKS = {"settings": newest_names}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in QUICK])
def test_program(name: str) -> None:
    found = under_stator(name)
    assert found.recorded() == (RECORDED / f"{name}.txt").read_text(), found.errors
    told = numbers(found.errors)
    assert tuple(told.get(row) for row in ROWS) == SUMMARIES[name], found.errors
    assert "compile time" in told
    assert "hit rate" in told


def test_everything_is_recorded() -> None:
    assert sorted(path.stem for path in RECORDED.glob("*.txt")) == names()
    assert set(SUMMARIES) == set(QUICK) < set(names())
