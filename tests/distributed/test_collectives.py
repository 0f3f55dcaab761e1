"""Collectives in graphs, with two real processes."""

import os

import pytest

from .processes import Rank, checks, judge
from .worker import names_of

NAMES = names_of("communicating")


@pytest.fixture(scope="module")
def found() -> list[Rank]:
    return checks("communicating", limit=180)


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks(found: list[Rank], name: str) -> None:
    for rank in found:
        told = rank.checks.get(name)
        assert told == "ok", f"{told}\nstatus {rank.status}\n{rank.output[-3000:]}"


@pytest.mark.skipif("STATOR_DISTRIBUTED" not in os.environ, reason="long: make distributed")
@pytest.mark.parametrize("ranks", [2, 4])
def test_inductor_and_four_ranks(ranks: int) -> None:
    judge(checks("communicating", ranks, 300, BACKENDS="eager aot_eager inductor"), NAMES)
