"""Each program in two modes; in all six with STATOR_HOSTILE=all."""

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
    chosen = MODES if os.environ.get("STATOR_HOSTILE") else (MODES[0], MODES[4])
    for backend, dynamic in chosen:
        assert not list(differences(program, backend, dynamic))
