"""Each program in one mode, by its name; in all six with STATOR_HOSTILE=all."""

# mypy: ignore-errors

import os

import pytest

from .compared import MODES, PROGRAMS, differences, programs

ALL = [
    pytest.param(program, id=f"{path.stem}-{program.name}")
    for path in sorted(PROGRAMS.glob("*.txt"))
    for program in programs(path)
]


@pytest.mark.parametrize("program", ALL)
def test_as_in_eager(program):
    one = MODES[
        3 + len(program.name) % 2
    ]  # aot_eager, with sizes that are left open late, or early
    chosen = MODES if os.environ.get("STATOR_HOSTILE") else (one,)
    for backend, dynamic in chosen:
        assert not list(differences(program, backend, dynamic))
