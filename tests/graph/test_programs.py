"""Every family of torch calls, recorded and run by backends: the result is eager's."""

import pytest

from .harness import Program, check
from .programs import FAMILIES

CASES = [
    pytest.param(program, id=f"{family}-{program.name}")
    for family, programs in FAMILIES.items()
    for program in programs
]


@pytest.mark.parametrize("program", CASES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_program(program: Program, backend: str) -> None:
    check(program, backend)


def test_there_are_enough() -> None:
    assert len(CASES) >= 150
    for programs in FAMILIES.values():
        names = [program.name for program in programs]
        assert len(names) == len(set(names))
