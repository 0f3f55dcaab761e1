"""The page of this part: its examples run, and it knows all causes and stances."""

import re
from pathlib import Path

import pytest

from stator.diagnostics.recompiles import Cause
from stator.driver.stance import STANCES

PAGE = Path(__file__).parents[2] / "docs" / "recompiles.md"
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_run(block: str) -> None:
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})


def test_it_is_complete() -> None:
    text = PAGE.read_text()
    assert len(BLOCKS) == 3
    for cause in Cause:
        assert f"| `{cause}` |" in text or cause is Cause.OTHER
    for stance in STANCES:
        assert f'| `"{stance}"` |' in text
