"""One rank does something else: each ends with a clear error or a right result, and none hangs."""

import os

import pytest

from .processes import Rank, run

LONG = pytest.mark.skipif("STATOR_DISTRIBUTED" not in os.environ, reason="make distributed")
LIMIT = 45  # seconds, of which a few are for the start


def rounds(rank: Rank) -> list[str]:
    """What each round has come to."""
    blocks = rank.output.split("ROUND ")[1:]
    return [each.partition("\nSECONDS")[0].strip() for each in blocks]


def faulty(name: str, count: int = 1, limit: float = LIMIT, ranks: int = 2) -> list[Rank]:
    found = run(["-m", "tests.distributed.faults", name, str(count)], ranks, limit)
    for number, rank in enumerate(found):
        assert rank.status is not None, f"rank {number} hangs\n{rank.output}"
    return found


@pytest.mark.parametrize("name", ["branches", pytest.param("another_shape", marks=LONG)])
def test_all_ranks_raise(name: str) -> None:
    for number, rank in enumerate(faulty(name, 5)):
        told = rounds(rank)
        assert len(told) == 5, rank.output
        for each in told:
            assert each.startswith("RankDivergence "), each
            assert "rank 0: all_reduce(float32[3]" in each and "rank 1: all_reduce(" in each, each
            assert "faults.py:" in each and "--- rank 0" in each and f"rank {number}" in each


@LONG
def test_agreement() -> None:
    for rank in faulty("agrees", 5):
        assert rounds(rank) == ["right [3.0, 3.0, 3.0]"] * 5, rank.output


def test_a_variant_that_communicates_alike() -> None:
    first, second = faulty("recompiles_alone_and_communicates_alike")
    assert rounds(first) == ["right [4.0, 4.0, 4.0]"], first.output
    assert rounds(second) == ["right [6.0, 6.0, 6.0]"], second.output


@LONG
def test_open_sizes_are_shared() -> None:
    for rank in faulty("changes_other_sizes"):
        assert rounds(rank) == ["right [20.0, 20.0]"], rank.output


@LONG
@pytest.mark.parametrize(
    ("name", "ranks", "told"),
    [
        ("saves_alone", 2, "[3.0, 3.0, 3.0]"),
        ("evaluates_alone", 2, "[2.0, 2.0, 2.0]"),
        ("waits_for_a_third", 3, "[2.0, 2.0, 2.0]"),
    ],
)
def test_one_comes_late(name: str, ranks: int, told: str) -> None:
    for rank in faulty(name, limit=90, ranks=ranks):
        assert rounds(rank) == [f"right {told}"], rank.output


@LONG
def test_one_raises() -> None:
    first, second = faulty("raises")
    assert rounds(second) == ["ValueError mine"], second.output
    assert "RankDivergence" in first.output and "rank 1" in first.output, first.output


@LONG
def test_one_stays_away() -> None:
    first, second = faulty("stays_away")
    assert rounds(first) == ["right [2.0, 2.0, 2.0]"], first.output
    assert rounds(second)[0].startswith("RankDivergence"), second.output


@LONG
def test_one_dies() -> None:
    first, second = faulty("dies")
    assert second.status == -9
    assert "RankDivergence" in first.output and "died" in first.output, first.output


@LONG
def test_one_recompiles_alone() -> None:
    first, second = faulty("recompiles_alone")
    assert rounds(first)[0].startswith("RankDivergence"), first.output
    assert "which was compiled before" in first.output
    assert "rank 0 has raised" in second.output, second.output


@LONG
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", ["agrees", "branches", "another_shape"])
def test_many_rounds(name: str, ranks: int) -> None:
    for rank in faulty(name, 100, 240, ranks):
        told = rounds(rank)
        start = "right" if name == "agrees" else "RankDivergence"
        assert len(told) == 100 and all(each.startswith(start) for each in told), rank.output[
            -3000:
        ]
