"""Random programs, eager against compiled: `make stress` runs many, CI some."""

# mypy: ignore-errors

import os
from typing import Final

import pytest

from .compared import checked
from .generate import WIDE, generate

COUNT: Final = int(os.environ.get("STATOR_PROGRAMS", "16"))
_TOGETHER: Final = 8
KNOWN: Final[frozenset[int]] = frozenset()  # seeds that differ


@pytest.mark.parametrize("first", range(0, COUNT, _TOGETHER))
def test_as_in_eager(first):
    # Every other one of these has more words.
    for number in range(first, min(first + _TOGETHER, COUNT)):
        seed = number if number % 2 else WIDE + number
        found = [] if seed in KNOWN else checked(seed)[1]
        assert not found, f"{generate(seed).source}\n{found[0]}"


def test_programs_depend_on_their_seed_alone():
    assert generate(7) == generate(7) and generate(WIDE) == generate(WIDE)
    assert len({generate(seed).source for seed in range(200)}) == 200
