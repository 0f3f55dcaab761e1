"""Random programs, eager against compiled: `make stress` runs many, CI some."""

# mypy: ignore-errors

import os
from typing import Final

import pytest

from .compared import checked
from .generate import DOMAINS, WIDE, generate

COUNT: Final = int(os.environ.get("STATOR_PROGRAMS", "16"))
_TOGETHER: Final = 8
KNOWN: Final[frozenset[int]] = frozenset()  # seeds that differ


@pytest.mark.parametrize("first", range(0, COUNT, _TOGETHER))
def test_as_in_eager(first):
    # Of four of these, one has more words, and one is made of what real programs do.
    for number in range(first, min(first + _TOGETHER, COUNT)):
        seed = number + (0, WIDE, 0, DOMAINS)[number % 4]
        found = [] if seed in KNOWN else checked(seed)[1]
        assert not found, f"{generate(seed).source}\n{found[0]}"


def test_programs_depend_on_their_seed_alone():
    assert generate(7) == generate(7) and generate(WIDE) == generate(WIDE)
    assert generate(DOMAINS) == generate(DOMAINS)
    assert len({generate(seed).source for seed in range(200)}) == 200
