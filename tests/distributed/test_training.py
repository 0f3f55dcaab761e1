"""Replicated and sharded models, with two real processes."""

import os

import pytest

from .processes import Rank, checks, judge
from .worker import names_of

NAMES = names_of("training")


@pytest.fixture(scope="module")
def found() -> list[Rank]:
    return checks("training", limit=180)


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks(found: list[Rank], name: str) -> None:
    for rank in found:
        told = rank.checks.get(name)
        assert told == "ok", f"{told}\nstatus {rank.status}\n{rank.output[-3000:]}"


@pytest.mark.skipif("STATOR_DISTRIBUTED" not in os.environ, reason="long: make distributed")
@pytest.mark.parametrize(("ranks", "backend"), [(2, "eager"), (2, "inductor"), (4, "aot_eager")])
def test_other_backends_and_four_ranks(ranks: int, backend: str) -> None:
    judge(checks("training", ranks, 300, BACKEND=backend), NAMES)
