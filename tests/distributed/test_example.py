"""The example that a user can start: it learns, and compiled it learns what it learns in eager."""

import re

import pytest

from .processes import run

EXAMPLE = "examples/train_distributed.py"


def losses(how: str, ranks: int = 2) -> tuple[list[float], list[str]]:
    found = run([EXAMPLE, "--how", how, "--steps", "12", "--backend", "aot_eager"], ranks, 120)
    for rank in found:
        assert rank.status == 0, rank.output
    told = [re.findall(r"rank \d: (\d+ graphs.*)", rank.output)[0] for rank in found]
    return [float(each) for each in re.findall(r"loss ([\d.]+)", found[0].output)], told


@pytest.mark.parametrize(("how", "graphs"), [("ddp", 1), ("fsdp", 1)])
def test_it_learns(how: str, graphs: int) -> None:
    expected, _ = losses("eager")
    found, told = losses(how)
    assert found == pytest.approx(expected, abs=2e-3)
    assert found[-1] < found[0] - 0.3
    assert told == [f"{graphs} graphs, 0 breaks, 0 recompiles"] * 2
